"""A Hub is prepared by one call of its configuration, and starts no session without."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub import apihandlers
from jupyterhub.app import JupyterHub
from jupyterhub.objects import Hub
from jupyterhub.spawner import SpawnException
from traitlets.config import Application, Config
from traitlets.config.loader import PyFileConfigLoader

from portal.launch.kinds.jupyterlab import JupyterLab
from portal.paths import data_path
from spawners import hub_database, hub_patches, hub_setup
from spawners.api import routes
from spawners.launch import user_options
from spawners.spawner import PortalSpawner


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Steps of the preparation, as they are made."""
    made: list[Any] = []
    monkeypatch.setattr(hub_setup, "_called", False)
    monkeypatch.setattr(hub_patches, "apply_patches", lambda: made.append("patches"))
    monkeypatch.setattr(routes, "install_routes", lambda: made.append("routes"))
    monkeypatch.setattr(hub_database, "watch", made.append)
    return made


def in_program(monkeypatch: pytest.MonkeyPatch, program: Application | None) -> None:
    """Let ``program`` be what runs in this process."""
    monkeypatch.setattr(Application, "initialized", lambda: program is not None)
    monkeypatch.setattr(Application, "instance", lambda: program)


def shipped() -> Config:
    """Read the configuration that comes with the portal."""
    file = data_path("deploy") / "jupyterhub_config.py"
    return PyFileConfigLoader(file.name, str(file.parent)).load_config()


def test_the_shipped_configuration_sets_a_hub_up(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = JupyterHub()
    in_program(monkeypatch, hub)
    shipped()
    assert calls == ["patches", "routes", hub]
    assert PortalSpawner.hub_is_set_up()


@pytest.mark.parametrize("program", [None, Application()])
def test_other_programs_read_it_and_change_nothing(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch, program: Application | None
) -> None:
    in_program(monkeypatch, program)
    shipped()
    assert calls == []
    assert PortalSpawner.hub_is_set_up(), "which is what the doctor asks"


@pytest.mark.parametrize(
    ("address", "route"),
    [
        ("", "/services/portal/models/"),
        ("https://portal.example.org:8443", "portal.example.org/services/portal/models/"),
    ],
)
def test_the_gateways_route_has_the_host_where_hosts_are_told_apart(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch, address: str, route: str
) -> None:
    in_program(monkeypatch, None)
    assert "extra_routes" not in shipped().Proxy
    monkeypatch.setenv("PORTAL_GATEWAY_STATE", "/var/lib/gateway")
    hub = JupyterHub(subdomain_host=address, config=shipped())
    hub.hub = Hub()
    hub.init_proxy()
    assert hub.proxy.extra_routes == {route: "http://127.0.0.1:8003"}
    named = {"models.example.org/": "http://127.0.0.1:1"}
    if address:
        hub.proxy.extra_routes = named
        assert hub.proxy.extra_routes == named
    else:
        with pytest.raises(ValueError, match="leading"):
            hub.proxy.extra_routes = named


async def test_without_it_no_session_starts(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """batchspawner's route is there then, which runs what a session's token posts."""

    async def launch_request(spawner: Any, options: Any) -> Any:
        chosen = {"environment": "pytorch"}
        return SimpleNamespace(options=lambda: chosen, partition_automatic=False, kind=JupyterLab())

    monkeypatch.setattr(user_options, "launch_request", launch_request)
    restored: list[Any] = []
    spawner: Any = SimpleNamespace(
        options_again={}, _request="one", _restore_options=restored.append, serves=True, trace=None
    )
    with pytest.raises(SpawnException) as refused:
        await PortalSpawner.validate_options(spawner, {"environment": "pytorch"})
    assert spawner._request is None and restored == [{}]
    assert not PortalSpawner.hub_is_set_up()
    # The sentence has the line, and the line is right.
    (line,) = re.findall(r"its configuration: (.*)", str(refused.value))
    exec(line)
    await PortalSpawner.validate_options(spawner, {"environment": "pytorch"})
    assert spawner._request is not None


def test_the_portals_routes_are_added_once(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [*apihandlers.default_handlers]
    monkeypatch.setattr(apihandlers, "default_handlers", [*before])
    routes.install_routes()
    routes.install_routes()
    added = [row for row in apihandlers.default_handlers if row not in before]
    assert added == list(routes.ROUTES)
    assert len({path for path, _ in added}) == len(added)
    assert all(path.startswith("/api/portal/") for path, _ in added)
