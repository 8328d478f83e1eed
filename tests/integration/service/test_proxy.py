"""The routes of a real configurable-http-proxy that dies and is started again, without the Hub."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub.objects import Hub
from machine_clock import awake

from portal.demo.daemons.ports import free_port
from spawners.config.proxy import SessionProxy
from spawners.config.proxy_watch import MARK

from .test_service import proxy_command

TOKEN = "a-token-of-this-test"
HUB = "http://127.0.0.1:9"
SESSION = "http://127.0.0.1:11"
BACK = 10.0  # seconds until a new proxy has its routes


class Process:
    """The proxy, as a unit of its own would run it."""

    def __init__(self) -> None:
        self.public, self.api = free_port(), free_port()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        words = [f"--port={self.public}", "--ip=127.0.0.1", "--api-ip=127.0.0.1"]
        self.process = subprocess.Popen(
            [*proxy_command(), *words, f"--api-port={self.api}", "--log-level=warn"],
            env={"PATH": "/usr/bin:/bin", "CONFIGPROXY_AUTH_TOKEN": TOKEN},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def running() -> Iterator[Process]:
    proxy = Process()
    proxy.start()
    yield proxy
    proxy.kill()


def hub_with(process: Process, **settings: Any) -> SessionProxy:
    """The Hub's side of the proxy, with one session of ada's."""
    server = SimpleNamespace(host=SESSION)
    spawner = SimpleNamespace(ready=True, pending=None, proxy_spec="/user/ada/", server=server)
    ada = SimpleNamespace(name="ada", spawners={"": spawner})
    hub = Hub(ip="127.0.0.1", port=9, base_url="/hub/", routespec="/")
    app = SimpleNamespace(users={"ada": ada}, _service_map={}, hub=hub)
    return SessionProxy(
        app=app,
        hub=hub,
        should_start=False,
        auth_token=TOKEN,
        api_url=f"http://127.0.0.1:{process.api}",
        **settings,
    )


async def restored(proxy: SessionProxy) -> float:
    """Return the seconds until the proxy has the routes of the Hub and of the session."""
    began = awake()
    while True:
        try:
            routes = await proxy.get_all_routes()
        except Exception:
            routes = {}
        if {"/", "/user/ada/"} <= set(routes):
            assert routes["/user/ada/"]["target"] == SESSION
            return awake() - began
        assert awake() - began < 2 * BACK, routes
        await asyncio.sleep(0.1)


async def test_a_proxy_that_was_killed_has_its_routes_again(running: Process) -> None:
    proxy = hub_with(running, watch_interval=1.0)
    await proxy.check_routes(proxy.app.users, proxy.app._service_map)
    for _ in range(2):  # a second time too
        running.kill()
        running.start()
        assert await restored(proxy) < BACK


async def test_a_proxy_that_dies_with_new_routes_has_a_successor_with_them(
    running: Process,
) -> None:
    proxy = hub_with(running, watch_interval=0.1)
    await proxy.check_routes(proxy.app.users, proxy.app._service_map)
    check, deaths = SessionProxy.check_routes, []

    async def checked(*args: Any) -> None:
        await check(proxy, *args)
        if not deaths:
            deaths.append(awake())
            running.kill()
            running.start()

    proxy.check_routes = checked  # type: ignore[method-assign]
    running.kill()
    running.start()
    assert await restored(proxy) < BACK
    while not deaths:  # the routes of the first successor were seen
        await asyncio.sleep(0.1)
    assert await restored(proxy) < BACK


async def test_the_mark_is_a_route_to_the_hub_and_no_stale_one(running: Process) -> None:
    proxy = hub_with(running, watch_interval=0.1)
    await proxy.check_routes(proxy.app.users, proxy.app._service_map)
    await restored(proxy)
    await asyncio.sleep(0.5)
    await proxy.check_routes(proxy.app.users, proxy.app._service_map)  # as every five minutes
    answer = await proxy.api_request(MARK)
    assert (await answer.json() if hasattr(answer, "json") else answer)["target"] == HUB
    assert MARK not in "".join(await proxy.get_all_routes())


async def test_routes_are_restored_once_for_a_new_proxy(running: Process) -> None:
    running.kill()
    proxy = hub_with(running, watch_interval=0.1)
    checks, check = [], SessionProxy.check_routes

    async def counted(*args: Any) -> None:
        checks.append(awake())
        await check(proxy, *args)

    proxy.check_routes = counted  # type: ignore[method-assign]
    first = asyncio.ensure_future(proxy.check_routes(proxy.app.users, proxy.app._service_map))
    await asyncio.sleep(0.5)
    running.start()  # late, with the Hub at its door
    await first
    await asyncio.sleep(1)
    assert len(checks) == 1, "a proxy that is known"
    running.kill()
    running.start()
    await restored(proxy)
    await asyncio.sleep(1)
    assert len(checks) == 2
