"""The stand-in of a kernel that runs in another job: what clients see before, while and after."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from jupyter_client.session import Session
from portal_session.job_kernels.stand_in import StandIn
from portal_session.job_kernels.wire.link import Link, pack, unpack
from portal_session.job_kernels.wire.messages import DELIMITER, Signed
from portal_session.job_kernels.wire.sockets import CONTROL, IOPUB, SHELL, STDIN

CLIENT, KERNEL = Signed("clients"), Signed("kernels")
# The other ends of the connections, as Jupyter has them.
CLIENTS, KERNELS = Session(key=b"clients"), Session(key=b"kernels")
PAGE = b"page"


class Socket:
    """Socket whose messages a test puts in and takes out."""

    def __init__(self) -> None:
        self.came: asyncio.Queue[list[bytes]] = asyncio.Queue()
        self.sent: list[list[bytes]] = []

    async def recv_multipart(self) -> list[bytes]:
        return await self.came.get()

    def send_multipart(self, frames: list[bytes]) -> asyncio.Future[None]:
        self.sent.append(frames)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done


class Sockets:
    """Sockets of a kernel."""

    def __init__(self) -> None:
        self.asked = {channel: Socket() for channel in (SHELL, CONTROL, STDIN)}
        self.iopub = Socket()

    async def beat(self) -> None:
        """Beat as a heart that nobody hears."""

    async def read_subscriptions(self) -> None:
        """Read nothing: nobody subscribes."""

    async def any_subscribed(self) -> None:
        """Wait for nobody."""


class Site:
    """A stand-in with its clients and the link to its kernel."""

    def __init__(self) -> None:
        self.sockets, self.link = Sockets(), Link(lambda _: None)
        self.interrupts, self.shut_downs = 0, list[bool]()
        self.stand_in = StandIn(
            self.sockets,  # type: ignore[arg-type]
            CLIENT,
            KERNEL,
            self.link,
            "python",
            interrupt=self._interrupt,
            shut_down=self.shut_downs.append,
        )

    def _interrupt(self) -> None:
        self.interrupts += 1

    async def ask(self, kind: str, channel: bytes = SHELL, **content: Any) -> str:
        """Send a request as a page does; return its id."""
        message = CLIENTS.msg(kind, content)
        frames = CLIENTS.serialize(message)
        await self.sockets.asked[channel].came.put([PAGE, *frames])
        await asyncio.sleep(0.01)
        return str(message["header"]["msg_id"])

    def replies(self, channel: bytes = SHELL) -> list[tuple[str, dict[str, Any]]]:
        """Return type and content of the replies, each signed for the clients."""
        return [_read(frames) for frames in self.sockets.asked[channel].sent]

    def published(self) -> list[tuple[str, dict[str, Any]]]:
        return [_read(frames) for frames in self.sockets.iopub.sent]

    def forwarded(self) -> list[str]:
        """Return the types of the requests that went to the kernel, each signed with its key."""
        found = []
        for _, message in self.link._unsent:
            request = KERNEL.request(unpack(message, 1))
            assert request is not None, "signed with the kernel's key"
            assert request.identities == [PAGE]
            found.append(request.type)
        return found


def _read(frames: list[bytes]) -> tuple[str, dict[str, Any]]:
    client = Session(key=CLIENTS.key)  # a new one: each takes a message only once
    _, parts = client.feed_identities(frames)
    message = client.deserialize(parts)  # raises ValueError unless signed with the clients' key
    return message["header"]["msg_type"], message["content"]


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = Site()
    serving = asyncio.ensure_future(site.stand_in.serve())
    yield site
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


async def test_a_page_is_answered_while_the_job_waits(site: Site) -> None:
    await site.ask("kernel_info_request")
    ((kind, content),) = site.replies()
    assert (kind, content["language_info"]["name"]) == ("kernel_info_reply", "python")
    states = [content["execution_state"] for _, content in site.published()]
    assert states == ["busy", "idle"]
    for asked in ("complete", "inspect", "history", "is_complete", "comm_info"):
        await site.ask(f"{asked}_request", cursor_pos=3)
        kind, content = site.replies()[-1]
        assert (kind, content["status"] in ("ok", "unknown")) == (f"{asked}_reply", True)
    assert site.forwarded() == []


async def test_cells_are_kept_in_order_and_sent_when_the_kernel_is_there(site: Site) -> None:
    for code in ("a", "b"):
        await site.ask("execute_request", code=code)
    assert site.replies() == [] and site.forwarded() == []
    await site.ask("kernel_info_request")
    assert site.published()[-1][1]["execution_state"] == "busy", "cells wait in it"
    await site.stand_in.runs()
    await site.ask("execute_request", code="c")
    assert site.forwarded() == ["execute_request"] * 3
    codes = [
        KERNEL.request(unpack(message, 1)).content["code"]  # type: ignore[union-attr]
        for _, message in site.link._unsent
    ]
    assert codes == ["a", "b", "c"]


async def test_an_interrupt_cancels_the_wait(site: Site) -> None:
    id = await site.ask("execute_request", code="a")
    await site.ask("interrupt_request", CONTROL)
    assert site.interrupts == 1
    await site.stand_in.forget("KeyboardInterrupt", "Cancelled.")
    ((kind, content),) = site.replies()
    assert (kind, content["ename"], content["evalue"]) == (
        "execute_reply",
        "KeyboardInterrupt",
        "Cancelled.",
    )
    error = next(frames for frames in site.sockets.iopub.sent if frames[0] == b"error")
    parent = json.loads(error[error.index(DELIMITER) + 3])
    assert parent["msg_id"] == id, "it is shown in its cell"
    await site.stand_in.runs()
    assert site.forwarded() == []


@pytest.mark.parametrize("restart", [True, False])
async def test_a_shut_down_is_answered_and_passed_on(site: Site, restart: bool) -> None:
    await site.ask("shutdown_request", CONTROL, restart=restart)
    assert site.replies(CONTROL) == [("shutdown_reply", {"status": "ok", "restart": restart})]
    assert site.shut_downs == [restart]


async def test_what_runs_when_the_kernel_dies_says_why(site: Site) -> None:
    await site.stand_in.runs()
    ended = await site.ask("execute_request", code="a")
    await site.ask("execute_request", code="b")
    reply = KERNELS.msg("execute_reply", {"status": "ok"}, parent={"header": {"msg_id": ended}})
    site.stand_in.deliver(SHELL + pack([PAGE, *KERNELS.serialize(reply)]))
    await site.stand_in.died("It was killed.")
    assert [content.get("evalue") for _, content in site.replies()] == [None, "It was killed."]
    assert ("status", {"execution_state": "restarting"}) in site.published()
    await site.ask("execute_request", code="c")
    assert site.forwarded()[-1] == "execute_request", "the next one waits for the new kernel"


async def test_after_the_job_each_cell_says_how_it_ended(site: Site) -> None:
    await site.stand_in.runs()
    await site.stand_in.over("Its time limit is reached.")
    await site.ask("execute_request", code="a")
    assert site.replies()[-1][1]["evalue"] == "Its time limit is reached."
    await site.ask("kernel_info_request")
    assert site.replies()[-1][0] == "kernel_info_reply"
    assert site.forwarded() == []


async def test_what_is_not_signed_for_the_kernel_is_dropped(site: Site) -> None:
    stranger = Session(key=b"another")
    frames = stranger.serialize(stranger.msg("execute_request", {"code": "a"}))
    for forged in ([PAGE, *frames], [PAGE, DELIMITER], [b""], [PAGE, DELIMITER, *[b"[]"] * 5]):
        await site.sockets.asked[SHELL].came.put(list(forged))
    await site.stand_in.runs()
    await asyncio.sleep(0.01)
    assert site.replies() == [] and site.forwarded() == []


async def test_the_kernels_broadcast_is_signed_for_the_clients(site: Site) -> None:
    message = KERNELS.msg("stream", {"name": "stdout", "text": "x"})
    frames = [b"stream", *KERNELS.serialize(message)]
    site.stand_in.deliver(IOPUB + pack(frames))
    site.stand_in.deliver(IOPUB + pack([b"no message"]))
    assert site.published() == [("stream", {"name": "stdout", "text": "x"})]


@pytest.mark.parametrize("state", ["starting", "busy", "idle"])
async def test_a_kernel_that_is_there_does_not_say_that_it_starts(site: Site, state: str) -> None:
    """JupyterLab showed that until a cell was run."""
    await site.stand_in.runs()
    frames = KERNEL.broadcast("status", {"execution_state": state})
    site.stand_in.deliver(IOPUB + pack([b"kernel.7.status", *frames[1:]]))
    states = [content["execution_state"] for _, content in site.published()]
    assert states == (["idle"] if state == "starting" else ["idle", state])


async def test_only_a_status_can_say_that_it_starts(site: Site) -> None:
    text = {"name": "stdout", "text": '"starting"'}
    site.stand_in.deliver(IOPUB + pack(KERNEL.broadcast("stream", text)))
    assert site.published() == [("stream", text)]


PAST = {"id": "asked-before", "client": "page", "ended": None, "outputs": {}}


async def test_the_past_is_told_before_what_comes_later(site: Site) -> None:
    site.stand_in.past(PAST)
    site.stand_in.past_end()
    site.stand_in.deliver(IOPUB + pack(KERNEL.broadcast("stream", {"text": "x"})))
    assert site.published() == [
        ("portal_past", PAST),
        ("portal_past_end", {}),
        ("stream", {"text": "x"}),
    ]
    assert [frames[0] for frames in site.sockets.iopub.sent[:2]] == [
        b"portal_past",
        b"portal_past_end",
    ]


@pytest.mark.parametrize("ended", [None, 5.0])
async def test_a_kernel_that_is_taken_up_says_whether_it_runs(
    site: Site, ended: float | None
) -> None:
    site.stand_in.past({**PAST, "ended": ended})
    await site.stand_in.runs()
    status = site.sockets.iopub.sent[-1]
    parent = json.loads(status[status.index(DELIMITER) + 3])
    state = site.published()[-1][1]["execution_state"]
    expected = ("idle", None) if ended else ("busy", "asked-before")
    assert (state, parent.get("msg_id")) == expected


async def test_what_ran_before_ends_with_the_job(site: Site) -> None:
    site.stand_in.past(PAST)
    site.stand_in.past({**PAST, "id": "ended-before", "ended": 5.0})
    await site.stand_in.runs()
    await site.stand_in.over("Its time limit is reached.")
    ((kind, content),) = site.replies()
    assert (kind, content["evalue"]) == ("execute_reply", "Its time limit is reached.")
    assert site.sockets.asked[SHELL].sent[0][0] == PAGE, "its page may be back"
    assert ("status", {"execution_state": "idle"}) in site.published()


async def test_a_page_is_connected_while_a_cell_of_the_past_runs(site: Site) -> None:
    """The kernel itself would answer after that cell."""
    site.stand_in.past(PAST)
    await site.stand_in.runs({"status": "ok", "banner": "the kernel's own"})
    await site.ask("kernel_info_request")
    assert site.forwarded() == []
    ((kind, content),) = site.replies()
    assert (kind, content["banner"]) == ("kernel_info_reply", "the kernel's own")
    assert site.published()[-1] == ("status", {"execution_state": "busy"})
    reply = KERNELS.msg(
        "execute_reply", {"status": "ok"}, parent={"header": {"msg_id": PAST["id"]}}
    )
    site.stand_in.deliver(SHELL + pack([PAGE, *KERNELS.serialize(reply)]))
    await site.ask("kernel_info_request")
    assert site.forwarded() == ["kernel_info_request"]
