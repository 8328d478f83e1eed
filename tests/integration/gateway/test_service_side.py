"""The service's side of the gateway, against the gateway and a replica as processes: routes, state,
changes, and the example over TLS. And an owner who names another's replica as theirs."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from gateway_site import NAME, GatewaySite

from portal.gateway.keys import ensure_identity
from portal.work.endpoint.gateway import Gateway, GatewayAway


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site() -> AsyncIterator[GatewaySite]:
    with tempfile.TemporaryDirectory(prefix="gw-") as folder:
        site = GatewaySite(Path(folder))
        await site.start()
        try:
            await site.add_replica("a")
            yield site
        finally:
            await site.stop()


async def test_a_replica_is_tried_over_tls_as_the_gateway_asks(site: GatewaySite) -> None:
    gateway, row = Gateway(str(site.directory)), site.row("a")
    known = (row["address"], row["certificate"])
    assert await gateway.try_example("a", *known, {}, "/health") == ""
    example = {"method": "POST", "path": "/v1/x", "body": {"say": "hello"}}
    assert await gateway.try_example("a", *known, example, "/health") == ""
    # What the answer has to contain is looked for in all of it.
    assert await gateway.try_example("a", *known, {**example, "contains": '"headers"'}, "/") == ""
    other = await gateway.try_example("a", *known, {**example, "contains": "42.5"}, "/")
    assert other.startswith("Its answer to the example does not contain what it has to: ")
    # Another's replica refuses, whoever names it, and so does one with another certificate.
    assert "status 421" in await gateway.try_example("b", *known, example, "/health")
    assert "did not answer" in await gateway.try_example(
        "a", row["address"], await gateway.certificate(), example, "/health"
    )
    gone = await gateway.try_example("a", "127.0.0.1:1", row["certificate"], {}, "/health")
    assert gone.startswith("It did not answer the example: ")


async def test_requests_of_a_model_that_names_anothers_replica_are_refused(
    site: GatewaySite,
) -> None:
    stolen = site.row("a") | {"id": "stolen"}
    site.models["thief"] = {"owner": "ada", "replicas": [stolen]}
    await site.serve("a")
    async with aiohttp.ClientSession(headers=site.headers()) as client:
        headers = {"X-Portal-Replica": "a"}  # from outside it does not count
        async with client.get(site.url("/v1/x", "thief"), headers=headers) as response:
            assert response.status == 503, await response.text()
        async with client.get(site.url("/v1/x")) as response:
            shown = await response.json()
    assert response.status == 200
    assert "x-portal-replica" not in {key.lower() for key, _ in shown["headers"]}


async def test_routes_state_and_changes(site: GatewaySite) -> None:
    gateway = Gateway(str(site.directory))
    row = {**site.row("a"), "weight": 100.0, "draining": False, "version": 1}
    await gateway.write({NAME: {"owner": "ada", "replicas": [row]}})
    await gateway.write({NAME: {"owner": "ada", "replicas": [row]}, "empty": {"owner": "ada"}})
    await site.routes_taken()
    state = await gateway.state()
    assert state is not None
    before = state.requests(NAME)
    first = (await site.ask_state())["changes"]
    waiting = asyncio.ensure_future(gateway.changes(first))
    async with aiohttp.ClientSession(headers=site.headers()) as client:
        async with client.get(site.url("/v1/x")) as response:
            assert response.status == 200
        asking = asyncio.ensure_future(client.get(site.url("/v1/x", "empty")))
        async with asyncio.timeout(10):
            assert await waiting == first + 1
        state = await gateway.state()
        assert state is not None and state.demand("empty").waiting == 1
        assert state.requests(NAME) == before + 1 and state.in_flight(NAME, "a") == 0
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def test_a_gateway_that_is_away_is_said(tmp_path: Path) -> None:
    gateway = Gateway(str(tmp_path))
    assert await gateway.state() is None and await gateway.changes(0) is None
    with pytest.raises(GatewayAway, match="does not run yet"):
        await gateway.certificate()
    ensure_identity(tmp_path)
    assert "BEGIN CERTIFICATE" in await gateway.certificate()
    with pytest.raises(GatewayAway, match="cannot be written"):
        await Gateway(str(tmp_path / "missing")).write({})
