"""Faults behind the gateway: replicas that refuse, die, hang, answer garbage; restarts."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest
import pytest_asyncio
from gateway_site import NAME, GatewaySite, paused, until
from machine import patience


@pytest_asyncio.fixture(loop_scope="session")
async def site() -> AsyncIterator[GatewaySite]:
    with tempfile.TemporaryDirectory(prefix="gw-") as folder:
        site = GatewaySite(Path(folder))
        await site.start()
        try:
            yield site
        finally:
            await site.stop()


@pytest_asyncio.fixture(loop_scope="session")
async def client(site: GatewaySite) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(headers=site.headers()) as session:
        yield session


async def test_a_replica_that_is_told_to_end_fails_no_request(
    site: GatewaySite, client: aiohttp.ClientSession
) -> None:
    """It ends with no word to the gateway: streams end whole, the rest goes to the other one."""
    await asyncio.gather(site.add_replica("a"), site.add_replica("b"))
    await site.serve("a", "b")
    results: list[tuple[int, bool, str]] = []

    async def ask(number: int) -> None:
        path = "/v1/stream?n=20&pause=0.05" if number % 2 else "/v1/x"
        async with client.post(site.url(path), data=b"x" * 100) as response:
            text = await response.read()
            whole = path == "/v1/x" or text.endswith(b"[DONE]\n\n")
            results.append((response.status, whole, "" if whole else text.decode()))

    tasks = []
    for number in range(200):
        tasks.append(asyncio.create_task(ask(number)))
        await asyncio.sleep(0.01)
        if number == 60:
            site.replicas["a"].send_signal(signal.SIGTERM)
    await asyncio.gather(*tasks)
    assert results == [(200, True, "")] * 200
    assert await asyncio.to_thread(site.replicas["a"].wait, 30) == 0
    assert not site.reports["a"]["ready"]


async def test_a_program_that_dies_is_started_again_and_then_given_up(
    site: GatewaySite, client: aiohttp.ClientSession
) -> None:
    process = await site.add_replica("a")
    await site.serve("a")
    for deaths in range(1, 6):
        async with client.post(site.url("/die")) as response:
            assert response.status == 502
        if deaths < 5:
            await until(lambda: not site.reports["a"]["ready"])
            await until(lambda: site.reports["a"]["ready"], lambda: site.log("a"))
    assert await asyncio.to_thread(process.wait, 30) == 1
    assert "has ended 5 times. The end of its log:\n" in site.log("a")
    assert site.log("a").count("it dies") >= 5


async def test_a_program_that_answers_no_more_is_reported(
    site: GatewaySite, client: aiohttp.ClientSession
) -> None:
    """Its replica says so, with its words in the log, and says when it answers again."""
    await site.add_replica("a", "_SILENT=1.5", "_ASK=0.3", "_HEALTH=0.5")
    await site.serve("a")
    await asyncio.sleep(2)
    assert site.reports["a"]["ready"], site.log("a")
    words = "has not answered /health for 1.5 s. The end of its log:"
    for number, how in enumerate(("hangs", "garbage", "503"), 1):
        async with client.get(site.url(f"/break?how={how}")) as response:
            pid = await response.text()
        await until(lambda: not site.reports["a"]["ready"], lambda: site.log("a"))
        assert site.log("a").count(words) == number
        async with client.get(site.url("/break?how=")) as response:
            assert await response.text() == pid, "what is on its way reaches it, and it goes on"
        await until(lambda: site.reports["a"]["ready"], lambda: site.log("a"))


async def test_a_program_that_does_not_start_fails_the_job_with_its_words(
    site: GatewaySite,
) -> None:
    broken = site.folder / "broken.py"
    broken.write_text("raise SystemExit('no weights in this folder')")
    process = await site.add_replica("a", ready=False, program=str(broken))
    assert await asyncio.to_thread(process.wait, 60) == 1
    assert "no weights in this folder" in site.log("a")
    assert not site.reports["a"]["ready"]


async def test_answers_that_are_garbage_or_end_early_are_errors(
    site: GatewaySite, client: aiohttp.ClientSession
) -> None:
    await site.add_replica("a")
    await site.serve("a")
    async with client.get(site.url("/garbage")) as response:
        assert response.status == 502
        assert "Traceback" not in await response.text()
    async with client.get(site.url("/half")) as response:
        assert response.status == 200
        try:
            text = await response.read()
        except aiohttp.ClientError:
            text = b""
        assert text == b"", "an answer that was broken off looked complete"
    async with client.get(site.url("/v1/x")) as response:
        assert response.status == 200


async def test_a_replica_that_is_gone_is_passed_over(
    site: GatewaySite, client: aiohttp.ClientSession
) -> None:
    await asyncio.gather(site.add_replica("a"), site.add_replica("b"))
    await site.serve("a", "b")
    site.replicas["a"].kill()
    for _ in range(20):  # not even requests that must not come twice
        async with client.post(site.url("/v1/x"), data=b"x") as response:
            assert response.status == 200
    state = (await site.ask_state())["models"][NAME]["replicas"]["a"]
    assert state["errors"] and "cannot be reached" in state["last_failure"]


async def test_a_replica_with_another_certificate_gets_nothing(
    site: GatewaySite, client: aiohttp.ClientSession
) -> None:
    """Another program of a neighbour may listen on the port of a replica that has ended."""
    await asyncio.gather(site.add_replica("a"), site.add_replica("b"))
    row = {**site.row("a"), "certificate": site.reports["b"]["certificate"]}
    site.models[NAME] = {"owner": "ada", "replicas": [row], "limits": {"wake": 1}}
    await site.write_routes()
    async with client.post(site.url("/v1/x"), data=b"x") as response:
        assert response.status == 502
    assert (await site.ask_state())["models"][NAME]["replicas"]["a"]["errors"]


async def test_a_hanging_replica_ends_with_the_models_time(
    site: GatewaySite, client: aiohttp.ClientSession
) -> None:
    process = await site.add_replica("a")
    await site.serve("a", limits={"seconds": 1.5})
    with paused(process):
        began = time.monotonic()
        async with client.post(site.url("/v1/x"), data=b"x") as response:
            assert response.status == 504, await response.text()
        assert 1.4 < time.monotonic() - began < 6
    async with client.get(site.url("/slow?seconds=3")) as response:
        assert response.status == 504


async def test_the_hub_away(site: GatewaySite, client: aiohttp.ClientSession) -> None:
    await site.add_replica("a")
    await site.serve("a", everyone=True)
    async with client.get(site.url("/v1/x")) as response:
        assert response.status == 200
    site.hub_status = 503
    new = site.headers(site.add_user("bob"))
    unknown = asyncio.create_task(_status(client, site.url("/v1/x"), new))
    until_old = time.monotonic() + 11  # the answer about the known token is older then
    while time.monotonic() < until_old:
        assert await _status(client, site.url("/v1/x"), site.headers()) == 200
        await asyncio.sleep(0.5)
    assert not unknown.done()
    site.hub_status = 0
    assert await unknown == 200


async def test_a_revoked_token_is_refused_within_ten_seconds(
    site: GatewaySite, client: aiohttp.ClientSession
) -> None:
    await site.add_replica("a")
    await site.serve("a")
    assert await _status(client, site.url("/v1/x"), site.headers()) == 200
    del site.tokens[site.token]
    revoked = time.monotonic()
    asked = site.hub_asked
    while await _status(client, site.url("/v1/x"), site.headers()) == 200:
        assert time.monotonic() - revoked < 11
        await asyncio.sleep(0.1)
    assert site.hub_asked - asked <= 3, "the Hub is asked for each request"


async def test_a_second_gateway_takes_over(
    site: GatewaySite, client: aiohttp.ClientSession
) -> None:
    """Streams of the first one end whole; so do requests on connections of both."""
    await site.add_replica("a")
    await site.serve("a")

    async def read_stream() -> bytes:
        async with client.get(site.url("/v1/stream?n=40&pause=0.1")) as response:
            return await response.read()

    stream = asyncio.create_task(read_stream())
    await asyncio.sleep(0.5)
    await site.start_gateway()
    site.gateways[0].send_signal(signal.SIGTERM)
    fresh = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(connector=fresh, headers=site.headers()) as session:
        statuses = [await _status(session, site.url("/v1/x")) for _ in range(30)]
    assert statuses == [200] * 30
    assert (await stream).endswith(b"[DONE]\n\n")
    assert await asyncio.to_thread(site.gateways[0].wait, 20) == 0
    assert (await site.ask_state())["models"][NAME]["requests"] >= 1


async def _status(client: aiohttp.ClientSession, url: str, headers: Any = None) -> int:
    async with client.get(url, headers=headers) as response:
        await response.read()
        return response.status


async def test_what_comes_while_the_gateway_is_away_waits_at_its_socket(
    site: GatewaySite,
) -> None:
    """systemd's socket outlives a gateway that is killed: only what is in flight fails."""
    await site.add_replica("a")
    await site.serve("a")
    site.gateways[0].kill()
    site.gateways[0].wait()
    with socket.create_server(("127.0.0.1", site.port), backlog=100) as listening:
        first = await site.start_gateway(listening)
        fresh = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(connector=fresh, headers=site.headers()) as session:
            assert await _status(session, site.url("/v1/x")) == 200
            stream = asyncio.create_task(_status(session, site.url("/v1/stream?n=100")))
            await asyncio.sleep(0.5)
            first.kill()
            asked = [asyncio.create_task(_status(session, site.url("/v1/x"))) for _ in range(30)]
            await asyncio.sleep(1)
            assert not any(task.done() for task in asked)
            await site.start_gateway(listening)
            assert await asyncio.gather(*asked) == [200] * 30
            with pytest.raises(aiohttp.ClientError):
                await stream

            # As `systemctl restart`: what is under way ends first.
            stream = asyncio.create_task(_status(session, site.url("/v1/stream?n=40")))
            await asyncio.sleep(0.5)
            site.gateways[-1].terminate()
            asked = [asyncio.create_task(_status(session, site.url("/v1/x"))) for _ in range(30)]
            assert await asyncio.to_thread(site.gateways[-1].wait, 20) == 0
            assert await stream == 200
            await site.start_gateway(listening)
            assert await asyncio.gather(*asked) == [200] * 30


async def test_a_stream_that_breaks_off_says_so_in_an_event(
    site: GatewaySite, client: aiohttp.ClientSession
) -> None:
    await site.add_replica("a")
    await site.serve("a")
    read = b""
    async with client.get(site.url("/v1/stream?n=100")) as response:
        read += await response.content.readline()
        site.replicas["a"].kill()
        with pytest.raises(aiohttp.ClientPayloadError):
            async for part in response.content.iter_any():
                read += part
    last = read.strip().rpartition(b"\n\n")[2]
    said = json.loads(last.removeprefix(b"data: "))["error"]
    assert said["code"] == 502
    assert said["message"] == "A replica of model 'echo' broke off its answer."


async def test_a_test_that_is_cut_off_leaves_no_process() -> None:
    lines = """
import asyncio, sys
from pathlib import Path
from gateway_site import GatewaySite
async def main():
    site = GatewaySite(Path(sys.argv[1]))
    await site.start()
    await site.add_replica("a")
    print("ready", flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""
    with tempfile.TemporaryDirectory(prefix="gw-") as folder:
        cut_off = await asyncio.create_subprocess_exec(
            sys.executable, "-c", lines, folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert cut_off.stdout is not None and await cut_off.stdout.readline() == b"ready\n"
        begun = psutil.Process(cut_off.pid).children(recursive=True)
        assert len(begun) == 3, begun  # gateway, replica, program
        cut_off.kill()
        await cut_off.wait()
        # The replica lets requests end first.
        _, left = await asyncio.to_thread(psutil.wait_procs, begun, patience(20))
        for process in left:
            process.kill()
        assert left == []
