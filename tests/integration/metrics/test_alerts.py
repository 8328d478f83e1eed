"""Alerts of deploy/prometheus/alerts.yml in a real Prometheus that scrapes the exporters of a site:
each fires when it has gone wrong there, and none of them on a good day."""

from __future__ import annotations

import asyncio
import json
import math
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from checkout import ROOT
from machine import patience
from monitored_site import DAY, MonitoredSite, monitored, session
from real_prometheus import RealPrometheus

from portal import disk
from portal.models.audit import Outcome

RULES = ROOT / "deploy/prometheus/alerts.yml"
OF_RULES = Path(__file__).with_name("alerts_test.yml")
DASHBOARDS = sorted((ROOT / "deploy/grafana").glob("*.json"))
ALERTS = {
    rule["alert"]: rule
    for group in yaml.safe_load(RULES.read_text())["groups"]
    for rule in group["rules"]
}
# What is true of the new site: its certificate ends in five days, nothing answers for telemetry.
ALWAYS = {"PortalCertificateExpires", "PortalTelemetryDown"}
# The tests' own work shares its event loop.
PERHAPS = {"PortalEventLoopBlocked"}


class Watched:
    """A site, and the Prometheus that watches it; ``fired`` has all alerts that it said."""

    def __init__(self, site: MonitoredSite, prometheus: RealPrometheus) -> None:
        self.site, self.prometheus = site, prometheus
        self.fired: set[str] = set()

    async def ask(self, path: str, **query: str) -> Any:
        async with httpx.AsyncClient(base_url=self.prometheus.url, trust_env=False) as client:
            answer = (await client.get(f"/api/v1/{path}", params=query, timeout=30)).json()
        assert answer["status"] == "success", answer
        return answer["data"]

    async def look(self) -> set[str]:
        """Return the alerts that fire now."""
        now = {
            alert["labels"]["alertname"]
            for alert in (await self.ask("alerts"))["alerts"]
            if alert["state"] == "firing"
        }
        self.fired |= now
        return now

    async def until(self, *names: str) -> None:
        """Wait until these have fired."""
        end = time.monotonic() + patience(30)
        while not self.fired.issuperset(names):
            await self.look()
            missing = set(names) - self.fired
            assert time.monotonic() < end, f"{missing} did not fire"
            await asyncio.sleep(0.2)

    async def wait_for(self, query: str, true: Callable[[list[Any]], bool] = bool) -> Any:
        """Wait until the result of ``query`` is as wanted; return it."""
        end = time.monotonic() + patience(30)
        while not true(found := (await self.ask("query", query=query))["result"]):
            assert time.monotonic() < end, f"{query}: {found}"
            await asyncio.sleep(0.2)
        return found


@pytest.fixture(scope="module")
async def watched() -> AsyncIterator[Watched]:
    if not shutil.which("prometheus"):
        pytest.skip("prometheus is not installed")
    with tempfile.TemporaryDirectory(prefix="pm") as folder, pytest.MonkeyPatch.context() as patch:
        async with monitored(Path(folder), patch) as site:
            place = Path(folder) / "prometheus"
            place.mkdir()
            rules = re.sub(r"(?m)^( +for:) .*$", r"\1 0s", RULES.read_text())
            (place / "alerts.yml").write_text(rules)
            prometheus = RealPrometheus(
                place,
                {
                    "global": {"scrape_interval": "500ms", "evaluation_interval": "500ms"},
                    "rule_files": ["alerts.yml"],
                    "scrape_configs": site.scrapes(),
                },
            )
            prometheus.start()
            try:
                yield Watched(site, prometheus)
            finally:
                prometheus.stop()


def test_promtool_finds_no_fault_in_the_rules() -> None:
    for argv in (["check", "rules", str(RULES)], ["test", "rules", str(OF_RULES)]):
        done = subprocess.run(["promtool", *argv], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_a_heading_and_words() -> None:
    for name, rule in ALERTS.items():
        kebab = re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()
        assert rule["annotations"]["runbook"] == f"docs/how-to/operate.md#{kebab}"
        assert {"summary", "description"} < set(rule["annotations"])
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["for"]


async def test_on_a_good_day_no_alert_fires(watched: Watched) -> None:
    await watched.wait_for("portal_slurm_up == 1")
    # Before the first scrape, nothing was up.
    await watched.wait_for('ALERTS{alertname=~"Portal(Hub|Slurm)?Down"}', lambda found: not found)
    watched.fired.clear()
    await watched.until("PortalBackupOld", *ALWAYS)  # there was none yet
    await watched.site.back_up(Outcome.DONE, time.time() - 600)
    await watched.wait_for('ALERTS{alertname="PortalBackupOld"}', lambda found: not found)
    await watched.wait_for("count_over_time(portal_up[1m]) > 5")
    assert await watched.look() - PERHAPS == ALWAYS
    assert watched.fired - PERHAPS == {"PortalBackupOld", *ALWAYS}


async def test_panels_of_the_dashboards_have_data(watched: Watched) -> None:
    await watched.wait_for("portal_slurm_up == 1")
    await watched.site.back_up(Outcome.DONE, time.time() - 600)
    for _ in range(4):  # in more than one scrape
        await watched.site.good_moment()
        await asyncio.sleep(0.6)
    empty = {}
    for path in DASHBOARDS:
        board = json.loads(path.read_text())
        assert {"name": "datasource", "type": "datasource", "query": "prometheus"}.items() <= (
            board["templating"]["list"][0].items()
        )
        for panel in board["panels"]:
            for target in (panel, *panel["targets"]):
                assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            for query in (target["expr"] for target in panel["targets"]):
                found = await watched.ask("query", query=query.replace("$__rate_interval", "1m"))
                if not any(math.isfinite(float(each["value"][1])) for each in found["result"]):
                    empty[panel["title"]] = query
    assert not empty


async def test_what_goes_wrong_fires_each_alert(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last test of the site: nothing of it is left."""
    site, now = watched.site, time.time()
    await watched.wait_for("portal_slurm_up == 1")
    if "PortalBackupOld" not in watched.fired:  # the test of a good day did not run
        await watched.until("PortalBackupOld", *ALWAYS)
    await site.back_up(Outcome.DONE, now - 600)
    await site.good_moment()
    await watched.wait_for("count_over_time(portal_up[1m]) > 5")  # what counts, counts from there
    time.sleep(0.8)  # a loop that is blocked
    # What the database and the disks have.
    await site.store.sessions.save(session("waits", submitted_at=now - 2 * DAY))
    await site.fail_environment()
    await site.fail_endpoint()
    await site.back_up(Outcome.FAILED, now)
    monkeypatch.setattr(disk, "free", lambda path: 100 * 1024**2)
    # Launches and requests that fail, and a directory that is slow.
    await asyncio.gather(fail(site), site.slow_ldap())
    await watched.until(
        "PortalEventLoopBlocked", "PortalQueueOld", "PortalCatalogTestsFail",
        "PortalEndpointsFail", "PortalBackupFailed", "PortalDiskFull", "PortalLaunchesFail",
        "PortalRequestsFail", "PortalLdapSlow",
    )  # fmt: skip
    # A directory, a slurmctld and a gateway that are gone; a database that is slow.
    site.slapd.stop()
    site.slurm.stop_one("slurmctld")
    for gateway in site.gateway.gateways:
        gateway.kill()
    site.store.database.query_seconds += 1000
    for _ in range(10):
        await site.ask_ldap()
    await watched.until(
        "PortalLdapFails", "PortalSlurmDown", "PortalSlurmCommandsFail", "PortalGatewayDown",
        "PortalDatabaseSlow",
    )  # fmt: skip
    # Commands that took long, a look at the cluster that does not end, a database that is gone.
    site.runner.seconds["squeue"] += 1000
    (site.folder / "portal.sqlite").rename(site.folder / "elsewhere.sqlite")
    aging = asyncio.ensure_future(grow_old(site))
    await watched.until("PortalSlurmSlow", "PortalClusterStateOld", "PortalDatabaseDown")
    aging.cancel()
    # Exporters that are gone.
    for job in ("portal", "jupyterhub"):
        site.servers[job].stop()
        await site.servers[job].close_all_connections()
    await watched.until("PortalDown", "PortalHubDown")
    assert watched.fired == set(ALERTS)


async def grow_old(site: MonitoredSite) -> None:
    """Make what is known of the cluster old, also what a last answer has brought since."""
    while True:
        view = site.dashboard.view
        assert view is not None
        object.__setattr__(view.snapshot, "asked_at", time.monotonic() - 600)
        await asyncio.sleep(0.1)


async def fail(site: MonitoredSite) -> None:
    """Let launches and requests fail, in more than one scrape."""
    async with httpx.AsyncClient(trust_env=False) as client:
        for index in range(5):
            site.fail_launch(f"failed-{index}")
            for _ in range(5):
                await client.get(f"http://127.0.0.1:{site.ports['portal']}/broken")
            await asyncio.sleep(0.6)
