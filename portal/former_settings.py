"""Former settings: those that have another name now, and those that are fixed. For one version a
configuration may still set them, the second without effect: the Hub and the commands warn of them,
and ``portal doctor`` reports them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from traitlets.config import Config

RENAMED_ADVICE = "Change the name before the next version: it is read for this one."
# Former name and present one: of a class, or of a setting as Class.setting.
RENAMED = {
    "OwnEnvironments": "UserEnvironments",
    "Workshop": "BuildScheduler",
}

ADVICE = "Remove it from the configuration before the next version."

# Names by class, separated by spaces.
FIXED = {
    "BuildScheduler": "again_after",
    "CatalogRules": "max_description",
    "Cluster": "associations_ttl burst exchange jobs_ttl nodes_ttl partitions_ttl patience "
    "quiet_nodes_ttl urgent_interval",
    "ClusterControl": "patience rights_ttl",
    "Courses": "handouts_loopback interval",
    "Curator": "sync_interval",
    "Dashboard": "heartbeat max_streams max_streams_each",
    "EnvironmentCatalog": "timeout verdicts_age",
    "HubApi": "api_token api_url timeout",
    "HubRequests": "max_body",
    "IdleSessions": "cull_every",
    "LDAPAuthenticator": "connect_timeout group_depth refresh_patience",
    "LaunchForm": "minimum_free stale_after",
    "Notices": "timeout",
    "OIDCAuthenticator": "refresh_patience",
    "PortalService": "bind_patience max_body",
    "PortalSpawner": "move_patience watch_interval",
    "Registries": "parallel",
    "SessionProxy": "watch_interval",
    "StartEstimates": "busy_share fresh_for patience per_person usable_for waits_days",
    "Telemetry": "patience prometheus_timeout report_gap report_interval",
    "TestCommand": "interval",
}


def rename(config: Config, renamed: Mapping[str, str] = RENAMED) -> list[tuple[str, str]]:
    """Give settings in ``config`` their present names, unless those are set too; return former and
    present name of each, such as ("c.Workshop.max_builds", "c.BuildScheduler.max_builds")."""
    found = []
    for former, present in renamed.items():
        kind, _, name = former.partition(".")
        if kind not in config:
            continue
        for each in [name] if name else sorted(config[kind]):
            if each not in config[kind]:
                continue
            new_kind, _, new_name = present.partition(".")
            value = config[kind].pop(each)
            config[new_kind].setdefault(new_name or each, value)
            found.append((f"c.{kind}.{each}", f"c.{new_kind}.{new_name or each}"))
        if not name:
            del config[kind]
    return found


def drop_fixed(config: Config) -> list[str]:
    """Remove them from ``config``, where traitlets would call each unknown; return their names,
    such as "c.Cluster.burst"."""
    dropped = []
    for kind, names in FIXED.items():
        for name in names.split():
            if name in config.get(kind, {}):
                del config[kind][name]
                dropped.append(f"c.{kind}.{name}")
    return dropped


def warn_of_former(config: Config, log: logging.Logger) -> None:
    """Rename and remove them in ``config``, with a warning for each."""
    for former, present in rename(config):
        log.warning("%s is called %s now. %s", former, present, RENAMED_ADVICE)
    for name in drop_fixed(config):
        log.warning("%s is fixed now, and its value is not used. %s", name, ADVICE)
