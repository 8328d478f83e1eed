"""Former settings, which have another name or are fixed now: a configuration that sets them is
read, with one warning; names that nobody knows are found."""

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
from portal.doctor.checks.settings import settings
from portal.doctor.site import Site
from portal.former_settings import FIXED, RENAMED, drop_fixed, rename
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


def test_a_former_name_is_a_name_no_more_and_its_present_one_is() -> None:
    known = {kind.__name__: kind for kind in reference.classes()}
    for former, present in RENAMED.items():
        kind, _, name = present.partition(".")
        assert kind in known and (not name or name in reference.settings(known[kind]))
        kind, _, name = former.partition(".")
        assert kind not in known or (name and name not in reference.settings(known[kind]))


def test_a_former_name_is_read_and_the_present_one_wins() -> None:
    config = Config({"Workshop": {"max_builds": 7, "max_tests": 9}})
    config.BuildScheduler.max_tests = 5
    assert rename(config) == [
        ("c.Workshop.max_builds", "c.BuildScheduler.max_builds"),
        ("c.Workshop.max_tests", "c.BuildScheduler.max_tests"),
    ]
    assert config == {"BuildScheduler": {"max_builds": 7, "max_tests": 5}}
    assert rename(config) == []
    renamed = {"Cluster.rate": "Cluster.rpcs_per_second", "Old.size": "Images.size"}
    config = Config({"Cluster": {"rate": 2, "fits": 1}, "Old": {"size": 3, "other": 4}})
    assert [present for _, present in rename(config, renamed)] == [
        "c.Cluster.rpcs_per_second", "c.Images.size",
    ]  # fmt: skip
    cluster = {"rpcs_per_second": 2, "fits": 1}
    assert config == {"Cluster": cluster, "Old": {"other": 4}, "Images": {"size": 3}}


def test_hub_service_and_commands_read_former_names(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "jupyterhub_config.py"
    path.write_text("c = get_config()\nc.Workshop.max_builds = 7\n")
    words = "c.Workshop.max_builds is called c.BuildScheduler.max_builds now"
    service = quiet(PortalService)
    service.load_config_file(str(path))
    assert service.config.BuildScheduler.max_builds == 7 and words not in caplog.text
    command = quiet(SiteCommand)
    command.initialize([f"--config={path}"])
    assert command.config.BuildScheduler.max_builds == 7 and caplog.text.count(words) == 1
    hub = SimpleNamespace(
        config=Config({"Workshop": {"max_builds": 7}}),
        log=logging.getLogger("portal-test"),
        template_vars={},
    )
    hub_setup._configured(SimpleNamespace(owner=hub))
    assert hub.config.BuildScheduler.max_builds == 7 and caplog.text.count(words) == 2


async def test_the_doctor_names_renamed_and_unknown_settings(tmp_path: Path) -> None:
    path = tmp_path / "jupyterhub_config.py"
    good = (
        'c.JupyterHub.spawner_class = "spawners.spawner.PortalSpawner"\n'
        "c.Spawner.poll_interval = 30\nc.BatchSpawnerBase.req_host = ''\nc.Mine.own = 1\n"
        "c.PortalSpawner.log_directory = '/x'\nc.SlurmRunner.timeout = 9\n"
        "c.JupyterHub.authenticator_class = 'portal-ldap'\nc.OAuthenticator.client_id = 'x'\n"
    )
    path.write_text("c = get_config()\n" + good)
    assert (await settings.function(Site(str(path)))).level == "ok"
    path.write_text(
        f"c = get_config()\n{good}c.Workshop.max_builds = 7\nc.PortalSpawner.log_dir = 1\n"
        "c.PortalSpwner.args = []\nc.IdleGPUs.mode = 'on'\nc.Dashboard.zzzz = 1\n"
    )
    found = await settings.function(Site(str(path)))
    assert found.level == "warning"
    assert found.found == (
        "c.Workshop.max_builds is called c.BuildScheduler.max_builds now; "
        "no setting is called c.PortalSpawner.log_dir; no setting is called c.PortalSpwner; "
        "no setting is called c.IdleGPUs; no setting is called c.Dashboard.zzzz"
    )
    for words in (
        "Do you mean c.PortalSpawner.log_directory?", "Do you mean c.PortalSpawner?",
        "Do you mean c.IdleGpus?", "Remove it: it has no effect.",
    ):  # fmt: skip
        assert words in found.mend


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
