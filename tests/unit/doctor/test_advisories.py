"""Known holes against what is installed, and a slurmctld that tells its metrics to everybody."""

from __future__ import annotations

import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from packaging.version import Version

from portal.doctor.checks import advisories
from portal.doctor.checks.advisories import Installed, read, result_of
from portal.doctor.command import Answer
from portal.doctor.finding import Level

TODAY = datetime.date(2026, 12, 24)


def found(product: str, version: str, *, packaged: bool = False, log: str = "") -> Any:
    one = Installed(product, Version(version), "/usr/bin/it", packaged, log)
    return result_of(read(), [one], TODAY)


@pytest.mark.parametrize(
    ("product", "bad", "good"),
    [
        ("slurm", "22.5.8", "25.5.9"),
        ("slurm", "25.11.7", "25.11.8"),
        ("slurm", "26.5.3", "26.5.4"),
        ("munge", "0.5.17", "0.5.18"),
        ("apptainer", "1.4.4", "1.4.5"),
        ("jupyterhub", "5.4.4", "6.1.1"),
        ("jupyter-server-proxy", "4.1.2", "4.2.0"),
        ("marimo", "0.22.9", "0.23.0"),
    ],
)
def test_affected_versions_are_told_and_fixed_ones_are_not(
    product: str, bad: str, good: str
) -> None:
    told = found(product, bad)
    assert told.level is Level.WARNING and product in told.found
    assert "unless" not in told.found and "https://" in told.mend
    assert found(product, good).level is Level.OK


def test_a_distributions_package_is_not_called_vulnerable_without_a_word() -> None:
    told = found("munge", "0.5.15", packaged=True)
    assert told.level is Level.WARNING and "unless your distribution has patched it" in told.found
    log = "munge (0.5.15-2+deb12u1) bookworm-security\n  * Fix overflow (CVE-2026-25506)\n"
    assert found("munge", "0.5.15", packaged=True, log=log).level is Level.OK


def test_an_old_list_says_that_it_is_old() -> None:
    told = result_of(read(), [], read().dated + datetime.timedelta(days=366))
    assert told.level is Level.WARNING and "the list of advisories is of" in told.found


async def test_a_packages_own_changes_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {
        ("dpkg-query", "-W", "munge"): Answer(0, "munge\t0.5.15-2+deb12u1\n", ""),
        ("zcat", "/usr/share/doc/munge/changelog.Debian.gz"): Answer(0, "CVE-2026-25506", ""),
        ("rpm", "-q", "slurm"): Answer(0, "slurm-24.05.2-1\n", ""),
        ("rpm", "-q", "--changelog", "slurm"): Answer(0, "- update\n", ""),
    }

    async def ask(argv: list[str], seconds: float = 10) -> Answer:
        return answers.get(tuple(argv), Answer(127, "", "not found"))

    monkeypatch.setattr(advisories, "ask", ask)
    assert await advisories._distribution(("munge",)) == (True, "CVE-2026-25506")
    assert await advisories._distribution(("slurm-client", "slurm")) == (True, "- update\n")
    assert await advisories._distribution(("apptainer",)) == (False, "")


@pytest.fixture
async def slurmctld(request: pytest.FixtureRequest) -> Any:
    async def metrics(_: web.Request) -> web.Response:
        return web.Response(text="# HELP slurm_jobs\n", status=getattr(request, "param", 200))

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield runner.addresses[0][1]
    await runner.cleanup()


def site_with(port: int) -> Any:
    text = f"SlurmctldHost[0]        = head(127.0.0.1)\nSlurmctldPort           = {port}\n"

    async def run(argv: list[str]) -> Any:
        assert argv == ["scontrol", "show", "config"]
        return SimpleNamespace(stdout=text)

    return SimpleNamespace(runner=SimpleNamespace(run=run))


async def test_open_metrics_are_told_with_the_way_to_shut_them(slurmctld: int) -> None:
    told = await advisories.metrics.function(site_with(slurmctld))
    assert told.level is Level.WARNING and f"127.0.0.1:{slurmctld}/metrics" in told.found
    assert "PrivateData" in told.mend and "MetricsType" in told.mend


@pytest.mark.parametrize("slurmctld", [404], indirect=True)
async def test_a_slurmctld_without_metrics_is_fine(slurmctld: int) -> None:
    assert (await advisories.metrics.function(site_with(slurmctld))).level is Level.OK


async def test_nobody_at_the_port_is_fine() -> None:
    assert (await advisories.metrics.function(site_with(1))).level is Level.OK
