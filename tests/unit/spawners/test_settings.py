"""Settings of batchspawner that sites bring along, and that the portal's spawner does not read."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from batchspawner import SlurmSpawner
from traitlets import Unicode
from traitlets.config import Config

from spawners.config import startup
from spawners.settings import SessionSettings
from spawners.spawner import PortalSpawner

NAMES = sorted(
    name
    for name in SlurmSpawner.class_trait_names(config=True)
    if name.startswith(("req_", "batch_", "state_", "exec_prefix", "startup_poll"))
)


def config_of(section: str, name: str, value: Any = "x") -> Config:
    return Config({section: {name: value}})


@pytest.mark.parametrize("section", ["PortalSpawner", "SlurmSpawner", "BatchSpawnerBase"])
@pytest.mark.parametrize("name", [*NAMES, "ip"])
def test_each_is_named_with_what_to_use_instead(section: str, name: str) -> None:
    found = PortalSpawner.unused_settings(config_of(section, name))
    assert list(found) == [f"c.{section}.{name}"]
    assert found[f"c.{section}.{name}"].endswith(".")


@pytest.mark.parametrize(
    "name", ["start_timeout", "poll_interval", "cmd", "apptainer", "args", "environment"]
)
@pytest.mark.parametrize("section", ["PortalSpawner", "BatchSpawnerBase", "Spawner"])
def test_those_that_count_are_not(section: str, name: str) -> None:
    assert PortalSpawner.unused_settings(config_of(section, name)) == {}


def test_a_sites_own_spawner_may_use_one_of_these_names() -> None:
    class Own(SessionSettings):
        req_partition = Unicode().tag(config=True)

    assert Own.unused_settings(config_of("Own", "req_partition")) == {}
    assert list(Own.unused_settings(config_of("Own", "req_qos"))) == ["c.Own.req_qos"]


def test_the_hub_says_so_when_it_begins(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("hub")
    for kind, times in ((PortalSpawner, 1), (SlurmSpawner, 0)):
        caplog.clear()
        config = config_of("SlurmSpawner", "req_options", "--exclusive")
        hub: Any = SimpleNamespace(spawner_class=kind, config=config, log=log)
        startup._tell_unused(hub)
        assert caplog.text.count("c.SlurmSpawner.req_options has no effect.") == times


def test_jupyterhubs_own_settings_have_the_portals_defaults_and_stay_settings() -> None:
    spawner = SessionSettings()
    assert (spawner.http_timeout, spawner.poll_interval) == (120, 10)
    for name in ("http_timeout", "poll_interval"):
        assert getattr(SessionSettings(config=config_of("Spawner", name, 33)), name) == 33
