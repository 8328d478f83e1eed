"""A proxy that is away while a session's route should be added or deleted."""

from __future__ import annotations

from typing import Any

import pytest

from spawners.config.proxy import SessionProxy

SPEC, TARGET = "/user/ada/", "http://127.0.0.1:4000"
ADA = {"user": "ada", "server_name": "run-5e2f3c1a"}


class Proxy(SessionProxy):
    """A proxy whose program answers no request while it is ``away``."""

    away, restored = True, 0

    async def api_request(self, path: str, method: str = "GET", body: Any = None) -> None:
        if self.away:
            raise TimeoutError(f'Repeated api_request to proxy path "{path}" failed.')

    async def _restore(self) -> None:
        self.restored += 1
        await self.add_route(SPEC, TARGET, ADA)


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Proxy:
    proxy = Proxy()
    monkeypatch.setattr(proxy._watch, "_target", lambda: TARGET)
    return proxy


async def test_a_session_without_a_route_goes_on_and_gets_it_later(proxy: Proxy) -> None:
    """JupyterHub stops a server whose route cannot be added."""
    await proxy.add_route(SPEC, TARGET, ADA)
    proxy.away = False  # the same process as before: it has the mark still
    assert await proxy._watch.restore_routes() and proxy.restored == 1
    assert not await proxy._watch.restore_routes()


async def test_a_session_whose_route_cannot_be_deleted_ends(proxy: Proxy) -> None:
    """JupyterHub neither stops its job nor notices that the job is over."""
    await proxy.delete_route(SPEC)
    proxy.away = False
    assert await proxy._watch.restore_routes() and proxy.restored == 1


async def test_a_proxy_that_goes_away_again_gets_it_the_next_time(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    await proxy.add_route(SPEC, TARGET, ADA)
    proxy.away = False

    async def marked() -> None:
        proxy.away = True

    monkeypatch.setattr(proxy._watch, "mark", marked)
    assert await proxy._watch.restore_routes()
    proxy.away = False
    assert await proxy._watch.restore_routes() and proxy.restored == 2


@pytest.mark.parametrize("data", [{"hub": True}, {"service": "portal"}])
async def test_the_hubs_own_routes_are_needed(proxy: Proxy, data: dict[str, Any]) -> None:
    with pytest.raises(TimeoutError):
        await proxy.add_route("/", TARGET, data)
