"""States of job kernels, for which the session's server asks the portal for its pages."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from portal_session.job_kernels import broker, submitter
from portal_session.job_kernels.broker import AT_A_TIME, FRESH, Kernels
from portal_session.service import ServiceError
from still_clock import StillClock

IDS = [f"0123456{number}" for number in range(8)]


class Portal:
    """The portal's service, played: ``asked`` has its requests, ``errors`` its refusals by path."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.errors: dict[str, ServiceError] = {}
        self.at_once = self.most_at_once = 0

    async def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        self.asked.append((method, path.removeprefix("session/kernels")))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        if error := self.errors.get(path.removeprefix("session/kernels")):
            raise error
        return {"id": path.rpartition("/")[2], "state": "running"}

    def states(self) -> list[str]:
        return [path[1:] for method, path in self.asked if method == "GET"]


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def portal() -> Portal:
    return Portal()


@pytest.fixture
def kernels(portal: Portal, clock: StillClock, monkeypatch: pytest.MonkeyPatch) -> Kernels:
    made = Kernels(None, clock)
    monkeypatch.setattr(made, "ask", portal.ask)
    return made


async def start(kernels: Kernels, *ids: str) -> None:
    for id in ids:
        await kernels.start({"id": id, "kernel": "python3"})


async def test_a_kernel_is_known_before_its_relay_asks(
    kernels: Kernels, portal: Portal, clock: StillClock
) -> None:
    await start(kernels, IDS[0])
    assert kernels.answers[IDS[0]]["state"] == "waiting"
    await kernels.refresh()
    assert portal.states() == []
    clock.now += FRESH
    await kernels.refresh()
    assert kernels.answers[IDS[0]]["state"] == "running"


async def test_each_is_asked_for_once_in_a_while(
    kernels: Kernels, portal: Portal, clock: StillClock
) -> None:
    await start(kernels, *IDS)
    for _ in range(int(4 * FRESH)):
        clock.now += 1
        await asyncio.gather(*(kernels.refresh() for _ in range(5)))  # as many pages
    assert set(portal.states()) == set(IDS), "also those that others come before"
    assert all(portal.states().count(id) <= 4 for id in IDS)
    assert portal.most_at_once <= AT_A_TIME


async def test_what_a_relay_asked_is_new_enough(
    kernels: Kernels, portal: Portal, clock: StillClock
) -> None:
    await start(kernels, IDS[0])
    clock.now += FRESH
    await kernels.status(IDS[0])
    await kernels.refresh()
    assert portal.states() == [IDS[0]]


async def test_what_is_over_is_not_asked_for(
    kernels: Kernels, portal: Portal, clock: StillClock
) -> None:
    await start(kernels, IDS[0])
    clock.now += FRESH
    portal.errors[f"/{IDS[0]}"] = ServiceError("You have no such kernel.", 404)
    for _ in range(3):
        await kernels.refresh()
        clock.now += FRESH
    assert portal.states() == [IDS[0]]
    assert kernels.answers[IDS[0]]["message"] == "The kernel's job has ended."
    portal.errors.clear()
    await kernels.stop(IDS[0])
    assert kernels.answers == {}


async def test_the_last_state_stays_while_the_portal_is_away(
    kernels: Kernels, portal: Portal, clock: StillClock
) -> None:
    await start(kernels, IDS[0])
    portal.errors[f"/{IDS[0]}"] = ServiceError("The portal cannot be reached.", 503)
    clock.now += FRESH
    await kernels.refresh()
    assert kernels.answers[IDS[0]]["state"] == "waiting"


async def test_a_page_does_not_wait_for_a_slow_portal(
    kernels: Kernels, clock: StillClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start(kernels, IDS[0])
    clock.now += FRESH
    asked: list[str] = []

    async def never(*request: Any) -> dict[str, Any]:
        asked.append(request[1])
        await asyncio.Event().wait()
        return {}

    monkeypatch.setattr(broker, "PATIENCE", 0.01)
    monkeypatch.setattr(kernels, "ask", never)
    for _ in range(3):
        clock.now += FRESH
        await asyncio.wait_for(kernels.refresh(), 5)
    assert len(asked) == 1, "no more requests than one for each"


@pytest.mark.parametrize(("status", "state"), [(403, "ended"), (429, "ended"), (409, "waiting")])
async def test_a_refused_kernel_says_why(
    kernels: Kernels, portal: Portal, status: int, state: str
) -> None:
    """With 409, its relay asks again."""
    portal.errors[""] = ServiceError("The limit is 8.", status)
    with pytest.raises(ServiceError):
        await start(kernels, IDS[0])
    assert kernels.answers[IDS[0]]["state"] == state
    assert (kernels.answers[IDS[0]]["message"] == "The limit is 8.") == (state == "ended")


@pytest.mark.parametrize("id", [None, 7, "", "../../x", ["01234567"]])
async def test_what_is_no_id_is_not_noted(kernels: Kernels, id: Any) -> None:
    await kernels.start({"id": id})
    assert kernels.answers == {}


async def test_a_kernel_that_is_stopped_meanwhile_is_forgotten(
    kernels: Kernels, portal: Portal, clock: StillClock
) -> None:
    await start(kernels, IDS[0])
    clock.now += FRESH
    refreshing = asyncio.ensure_future(kernels.refresh())
    await asyncio.sleep(0)
    await kernels.stop(IDS[0])
    await refreshing
    assert kernels.answers == {}


async def test_the_nodes_address_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The portal does not know the node of a session that has just begun."""
    monkeypatch.setattr(broker, "SHORT", 0.0)
    answers: list[Any] = [{"address": ""}, ServiceError("Not yet.", 503), {"address": "10.0.0.7"}]

    class New(Kernels):
        async def offered(self) -> dict[str, Any]:
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
            if isinstance(answer, ServiceError):
                raise answer
            return dict(answer)

    known = New(None)
    assert await known.address() == "10.0.0.7"
    answers[:] = [{"address": ""}]
    assert await known.address() == "10.0.0.7", "a session stays on its node"
    assert await New(None).address() == ""


async def test_a_job_that_was_begun_is_requested_once(kernels: Kernels, portal: Portal) -> None:
    body = {"id": IDS[0], "kernel": "python3"}
    kernels.submitter.begin(body)
    assert await kernels.start(body) == {"id": "kernels", "state": "running"}
    assert portal.asked == [("POST", "")]
    await kernels.start(body)  # a restarted kernel needs another job
    assert portal.asked == [("POST", "")] * 2


async def test_the_relay_is_told_why_a_job_was_refused(kernels: Kernels, portal: Portal) -> None:
    portal.errors[""] = ServiceError("You may use at most 2 GPUs.", 403)
    kernels.submitter.begin({"id": IDS[0]})
    with pytest.raises(ServiceError, match="at most 2 GPUs"):
        await kernels.start({"id": IDS[0]})


async def test_a_job_that_is_on_its_way_is_ended_when_it_is_there(
    kernels: Kernels, portal: Portal
) -> None:
    kernels.submitter.begin({"id": IDS[0]})
    await kernels.stop(IDS[0])
    assert portal.asked == [("POST", ""), ("DELETE", f"/{IDS[0]}")]


async def test_a_kernel_without_a_job_has_ended(kernels: Kernels, portal: Portal) -> None:
    portal.errors[f"/{IDS[0]}"] = ServiceError("You have no such kernel.", 404)
    assert await kernels.stop(IDS[0]) == {}
    portal.errors[f"/{IDS[0]}"] = ServiceError("The portal does not answer.", 503)
    with pytest.raises(ServiceError):
        await kernels.stop(IDS[0])


AWAY = ServiceError("The portal cannot be reached.", 503, away=True)


@pytest.fixture
def waits(clock: StillClock, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What pages are told while the portal is away; each pause takes a minute of the clock."""
    told: list[str] = []
    kernels_told: list[Kernels] = []

    async def pause(_: float) -> None:
        clock.now += 60
        told.extend(state["message"] for made in kernels_told for state in made.answers.values())
        await plain(0)

    plain = asyncio.sleep
    monkeypatch.setattr(submitter, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": pause}))
    definition_in = Kernels.note

    def note(made: Kernels, *given: Any) -> None:
        kernels_told[:] = [made]
        definition_in(made, *given)

    monkeypatch.setattr(Kernels, "note", note)
    return told


async def test_a_kernel_waits_while_the_portal_is_away_and_says_so(
    kernels: Kernels, portal: Portal, waits: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = portal.ask

    async def ask(*request: Any) -> dict[str, Any]:
        if len(waits) < 3:
            raise AWAY
        return await plain(*request)

    monkeypatch.setattr(kernels, "ask", ask)
    assert (await kernels.start({"id": IDS[0]}))["state"] == "running"
    assert set(waits) == {"The portal does not answer. The request is repeated for up to 10 min."}
    assert portal.asked == [("POST", "")]


async def test_an_outage_that_lasts_is_the_reason(
    kernels: Kernels, portal: Portal, clock: StillClock, waits: list[str]
) -> None:
    portal.errors[""] = AWAY
    with pytest.raises(ServiceError, match="cannot be reached"):
        await kernels.start({"id": IDS[0]})
    assert len(waits) == 10, "ten minutes"
    assert kernels.answers[IDS[0]]["state"] == "ended"


async def test_a_kernel_that_was_accepted_without_an_answer_is_found_by_its_id(
    kernels: Kernels, monkeypatch: pytest.MonkeyPatch, waits: list[str]
) -> None:
    refusals = [AWAY, ServiceError("It is already running.", 409)]

    async def ask(method: str, path: str, body: Any = None) -> dict[str, Any]:
        if method == "POST":
            raise refusals.pop(0)
        return {"id": path.rpartition("/")[2], "state": "running"}

    monkeypatch.setattr(kernels, "ask", ask)
    assert await kernels.start({"id": IDS[0]}) == {"id": IDS[0], "state": "running"}
    # Without an outage it is the former job, which still ends: the relay asks again.
    refusals.append(ServiceError("It is already running.", 409))
    with pytest.raises(ServiceError):
        await kernels.start({"id": IDS[0]})


async def test_a_relay_is_answered_while_the_portal_is_away(
    kernels: Kernels, portal: Portal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection to the session's server would time out."""
    monkeypatch.setattr(submitter, "HELD", 0.01)
    monkeypatch.setattr(submitter, "PAUSE", 0.01)
    portal.errors[""] = AWAY
    assert (await kernels.start({"id": IDS[0]}))["away"] is True
    assert (await kernels.status(IDS[0]))["state"] == "waiting"
    assert portal.states() == [], "the portal does not know it yet"
    await kernels.stop(IDS[0])  # the user has shut it down
    assert portal.asked[-1] == ("DELETE", f"/{IDS[0]}")
    assert kernels.answers == {}
