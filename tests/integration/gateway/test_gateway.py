"""The gateway between callers and replicas: real processes, real TLS, a program that streams."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from gateway_site import NAME, GatewaySite


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site() -> AsyncIterator[GatewaySite]:
    with tempfile.TemporaryDirectory(prefix="gw-") as folder:
        site = GatewaySite(Path(folder))
        await site.start()
        try:
            await site.add_replica("a")
            await site.add_replica("b")
            yield site
        finally:
            await site.stop()


@pytest_asyncio.fixture(loop_scope="session")
async def client(site: GatewaySite) -> AsyncIterator[aiohttp.ClientSession]:
    await site.serve("a", "b")
    async with aiohttp.ClientSession(headers=site.headers()) as session:
        yield session


async def test_a_request_reaches_the_program_without_token_or_cookies(
    site: GatewaySite, client: aiohttp.ClientSession
) -> None:
    headers = {
        "Cookie": "jupyterhub-hub-login=secret",
        "X-Portal-User": "root",
        "X_Portal_User": "root",
        "X-Forwarded-User": "root",
        "Remote-User": "root",
        "Connection": "X-Secret-Hop",
        "X-Secret-Hop": "1",
        "X-Own": "kept",
    }
    async with client.post(site.url("/v1/x?a=%20b"), data=b"hello", headers=headers) as response:
        shown = await response.json()
    assert response.status == 200
    assert (shown["method"], shown["path"], shown["body"]) == ("POST", "/v1/x?a=%20b", "hello")
    seen = {key.lower(): value for key, value in shown["headers"]}
    assert seen["x-portal-user"] == "ada" and seen["x-own"] == "kept"
    assert len(seen["x-request-id"]) == 16, "one that is well-formed was not given"
    assert response.headers["X-Request-ID"] == seen["x-request-id"]
    assert site.token not in json.dumps(shown) and "secret" not in json.dumps(shown)
    assert not {"cookie", "authorization", "remote-user", "x-forwarded-user"} & seen.keys()
    assert "root" not in seen.values()
    # Nor does the program set cookies of the Hub.
    assert "Set-Cookie" not in response.headers and response.headers["X-Own"] == "passed"
    assert response.headers["Content-Security-Policy"] == "sandbox"


async def test_events_come_as_they_are_sent(
    site: GatewaySite, client: aiohttp.ClientSession
) -> None:
    times, text = [], b""
    async with client.get(site.url("/v1/stream?n=6&pause=0.2")) as response:
        async for part in response.content.iter_any():
            times.append(time.monotonic())
            text += part
    assert text.count(b"data:") == 7 and text.endswith(b"[DONE]\n\n")
    assert times[-1] - times[0] > 0.8 and len(times) >= 6


async def test_large_bodies_pass_and_those_over_the_limit_do_not(
    site: GatewaySite, client: aiohttp.ClientSession
) -> None:
    async def parts(size: int) -> AsyncIterator[bytes]:
        for _ in range(size // 65536):
            yield b"x" * 65536

    size = 5 * 1024 * 1024
    async with client.post(site.url("/v1/x"), data=b"x" * size) as response:
        assert (await response.json())["size"] == size
    async with client.post(site.url("/v1/x"), data=parts(size)) as response:
        assert (await response.json())["size"] == size
    await site.serve("a", "b", limits={"body": size - 1})
    for data in (b"x" * size, parts(size)):
        try:
            async with client.post(site.url("/v1/x"), data=data) as response:
                assert response.status == 413
                error = (await response.json())["error"]
                assert error["message"] == "The body must be at most 5242879 bytes for this model."
        except aiohttp.ClientConnectionError:
            pass  # refused while it was still being sent
    assert (await site.ask_state())["refusals"]["413"] >= 2


async def test_who_may_use_a_model(site: GatewaySite) -> None:
    await site.serve("a", users=["bob"], groups=["lab"])
    other = site.add_user("eve")
    of_group = site.add_user("cleo", groups=("lab",))
    bare = site.add_user("bob", scopes=("read:users!user=bob",))
    single = site.add_user("bob", scopes=(f"custom:portal:models:use!service={NAME}",))
    wrong = site.add_user("bob", scopes=("custom:portal:models:use!service=other",))
    full = site.add_user("bob", scopes=("tokens!user=bob",))
    expected = [
        ("", 401),
        ("nobody", 401),
        (other, 404),
        (of_group, 200),
        (bare, 403),
        (single, 200),
        (wrong, 403),
        (full, 200),
    ]
    async with aiohttp.ClientSession() as session:
        for token, status in expected:
            headers = {"Authorization": f"Bearer {token}"} if token else {"Cookie": "a=b"}
            async with session.get(site.url("/v1/x"), headers=headers) as response:
                assert response.status == status, (token, await response.text())
                if status != 200:
                    error = (await response.json())["error"]
                    assert error["message"].endswith((".", "'."))
                    assert response.content_type == "application/json"
        async with session.get(site.url("/v1/x", "no-such"), headers=site.headers()) as response:
            assert response.status == 404


async def test_only_its_paths_are_let_through(
    site: GatewaySite, client: aiohttp.ClientSession
) -> None:
    await site.serve("a", paths=["/v1/"])
    async with client.get(site.url("/v1/x")) as response:
        assert response.status == 200
    named = {"X-Request-ID": "browser-1"}
    async with client.get(site.url("/metrics"), headers=named) as response:
        assert response.status == 404 and response.headers["X-Request-ID"] == "browser-1"


async def test_waiting_requests_are_answered_from_one_wake(
    site: GatewaySite, client: aiohttp.ClientSession
) -> None:
    await site.serve()
    before = (await site.ask_state())["changes"]
    changes = asyncio.create_task(site.ask_state(f"/changes?since={before}"))
    await asyncio.sleep(0.2)
    asked = [asyncio.create_task(_status(client, site.url("/v1/x"))) for _ in range(50)]
    assert NAME in (await changes)["models"]
    await _until_state(site, "waiting", 50)
    await site.serve("a")
    assert await asyncio.gather(*asked) == [200] * 50


async def test_a_model_that_does_not_wake_says_when_it_is_expected(
    site: GatewaySite, client: aiohttp.ClientSession
) -> None:
    await site.serve(limits={"wake": 0.2}, expected=time.time() + 90)
    async with client.get(site.url("/v1/x")) as response:
        assert response.status == 503
        assert 80 <= int(response.headers["Retry-After"]) <= 90
        assert "is expected to answer at" in (await response.json())["error"]["message"]
    await site.serve(limits={"wake": 5, "waiting": 1})
    first = asyncio.create_task(_status(client, site.url("/v1/x")))
    await _until_state(site, "waiting", 1)
    async with client.get(site.url("/v1/x")) as response:
        assert "Too many requests wait" in await response.text()
    await site.serve("a")
    assert await first == 200


async def test_a_draining_replica_gets_nothing_new(
    site: GatewaySite, client: aiohttp.ClientSession
) -> None:
    site.models[NAME]["replicas"] = [site.row("a", draining=True), site.row("b")]
    await site.write_routes()
    async with client.get(site.url("/v1/x")) as response:
        of_b = (await response.json())["pid"]
    pids = set()
    for _ in range(20):
        async with client.get(site.url("/v1/x")) as response:
            pids.add((await response.json())["pid"])
    assert pids == {of_b}


async def test_shares_follow_the_weights(site: GatewaySite, client: aiohttp.ClientSession) -> None:
    site.models[NAME]["replicas"] = [
        site.row("a", weight=90, version=1),
        site.row("b", weight=10, version=2),
    ]
    await site.write_routes()
    before = (await site.ask_state())["models"][NAME]["replicas"]
    for _ in range(200):
        async with client.get(site.url("/v1/x")) as response:
            assert response.status == 200
    after = (await site.ask_state())["models"][NAME]["replicas"]
    share = after["b"]["requests"] - before["b"]["requests"]
    assert 4 <= share <= 45


async def test_metrics_and_state(site: GatewaySite, client: aiohttp.ClientSession) -> None:
    await _status(client, site.url("/v1/x"))
    state = (await site.ask_state())["models"][NAME]
    assert state["tokens"] >= 7 and state["latency"]["buckets"]["+Inf"] >= 1
    text = await site.ask_state("/metrics")
    assert f'portal_gateway_answers_total{{model="{NAME}",status="200"}}' in text
    assert (site.directory / "gateway.sock").stat().st_mode & 0o777 == 0o600


async def test_broken_routes_leave_the_last_good_ones(
    site: GatewaySite, client: aiohttp.ClientSession
) -> None:
    path = site.directory / "routes.json"
    for text in ("{", "[]", '{"version": 2, "models": {}}'):
        path.write_text(text)
        await asyncio.sleep(0.6)
        assert await _status(client, site.url("/v1/x")) == 200
    site.models["other"] = {"owner": 7}
    site.models[NAME]["replicas"].append({**site.row("a"), "id": "c", "certificate": "no"})
    await site.write_routes()
    assert await _status(client, site.url("/v1/x")) == 200
    del site.models["other"]


async def _status(client: aiohttp.ClientSession, url: str) -> int:
    async with client.get(url) as response:
        await response.read()
        return response.status


async def _until_state(site: GatewaySite, key: str, number: int) -> None:
    for _ in range(100):
        if (await site.ask_state())["models"][NAME][key] == number:
            return
        await asyncio.sleep(0.05)
    pytest.fail(f"{key} is not {number}")
