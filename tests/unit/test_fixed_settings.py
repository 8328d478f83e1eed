"""Former settings that are fixed now: a configuration that sets them is read, with one warning."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from traitlets.config import Application, Config

from docs import reference
from portal.app.service import PortalService
from portal.command import SiteCommand
from portal.doctor.checks import hub as checks
from portal.doctor.site import Site
from portal.fixed_settings import FIXED, drop_fixed
from portal.slurm import Cluster, SlurmRunner
from spawners import hub_setup

UNKNOWN = "Config option `jobs_age` not recognized by `Cluster`"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A configuration with a setting, a fixed one of two classes, and an unknown one."""
    path = tmp_path / "jupyterhub_config.py"
    path.write_text(
        "c = get_config()\n"
        "c.Cluster.rpcs_per_second = 0.5\n"
        "c.Cluster.jobs_ttl = 30\n"
        "c.Cluster.jobs_age = 30\n"
        "c.PortalService.max_body = 5\n"
    )
    return path


def parts_of(config: Config) -> Cluster:
    log = logging.getLogger("portal-test")
    runner = SlurmRunner(config=config, log=log)
    try:
        return Cluster(config=config, log=log, runner=runner, exchange="")
    finally:
        runner.close()


def quiet(kind: type[Application], **traits: Any) -> Any:
    return kind(log=logging.getLogger("portal-test"), **traits)


def test_each_is_a_setting_no_more() -> None:
    left = {
        f"{kind.__name__}.{name}"
        for kind in reference.classes()
        for name in reference.settings(kind)
    }
    assert not left & {f"{kind}.{name}" for kind in FIXED for name in FIXED[kind].split()}


def test_each_is_dropped_and_named_and_nothing_else_is() -> None:
    config = Config()
    for kind, names in FIXED.items():
        for name in [*names.split(), "another"]:
            config[kind][name] = None
    dropped = drop_fixed(config)
    assert dropped == [f"c.{kind}.{name}" for kind in FIXED for name in FIXED[kind].split()]
    assert config == {kind: {"another": None} for kind in FIXED}
    assert drop_fixed(config) == []


def test_the_hub_warns_once_before_it_makes_its_parts(caplog: pytest.LogCaptureFixture) -> None:
    config = Config({"Cluster": {"jobs_ttl": 30.0, "jobs_age": 30.0}})
    hub = SimpleNamespace(config=config, log=logging.getLogger("portal-test"), template_vars={})
    hub_setup._configured(SimpleNamespace(owner=hub))
    cluster = parts_of(hub.config)
    assert cluster.jobs_ttl == 2.0
    assert caplog.text.count("jobs_ttl") == 1
    assert "c.Cluster.jobs_ttl is fixed now, and its value is not used. Remove it" in caplog.text
    assert UNKNOWN in caplog.text  # as of any class of traitlets


def test_the_service_reads_the_same_file_without_a_second_warning(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service = quiet(PortalService)
    service.load_config_file(str(file))
    assert service.max_body == 1024 * 1024
    cluster = parts_of(service.config)
    assert (cluster.rpcs_per_second, cluster.jobs_ttl) == (0.5, 2.0)
    assert UNKNOWN in caplog.text
    assert "jobs_ttl" not in caplog.text and "max_body" not in caplog.text


def test_a_command_warns_of_the_file_and_of_its_own_options(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    command = quiet(SiteCommand)
    command.initialize([f"--config={file}", "--Cluster.burst=9"])
    cluster = parts_of(command.config)
    assert (cluster.jobs_ttl, cluster.burst) == (2.0, 4)
    for name in ("c.Cluster.jobs_ttl", "c.Cluster.burst", "c.PortalService.max_body"):
        assert caplog.text.count(f"{name} is fixed now") == 1
    assert UNKNOWN in caplog.text


async def test_the_doctor_names_them(file: Path) -> None:
    found = await checks.configuration.function(Site(str(file)))
    assert found.level == "warning"
    assert found.found == (
        "c.Cluster.jobs_ttl, c.PortalService.max_body: fixed now, the value is not used"
    )
    assert found.mend.startswith("Remove it from the configuration")
    file.write_text("c = get_config()\nc.Cluster.jobs_age = 30\n")
    assert (await checks.configuration.function(Site(str(file)))).level == "ok"
