"""Former settings that are fixed now. For one version a configuration may still set them, without
effect: the Hub and the commands warn of them, and ``portal doctor`` reports them."""

from __future__ import annotations

import logging

from traitlets.config import Config

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


def warn_of_fixed(config: Config, log: logging.Logger) -> None:
    """Remove them from ``config`` with a warning for each."""
    for name in drop_fixed(config):
        log.warning("%s is fixed now, and its value is not used. %s", name, ADVICE)
