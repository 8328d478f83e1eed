"""Starts of runs, of a Hub that answers, refuses, or goes away meanwhile."""

from __future__ import annotations

import logging
import time
from typing import Any

import pytest
from fake_hub import FakeHub

from portal.errors import Conflict, HubUnavailable, NotAllowed, NotFound, PortalError
from portal.models.session.run import Run
from portal.store import Store
from portal.work.run.launches.starts import RunStarts
from portal.work.run.reports import RunReports
from portal.work.run.tables.runs import RunTable

AWAY = HubUnavailable("The Hub does not answer. Try again in a moment.")
RUN = Run(
    id="5e2f3c1a", name="rates", source="train.py", folder="/home/ada/runs/rates", points=4,
    resumes=2, user="ada", server="run-5e2f3c1a", environment="lab", created_at=time.time(),
)  # fmt: skip
RUNNING = {(RUN.user, RUN.server): "ready"}


async def begun(store: Store, hub: FakeHub) -> Run | None:
    """Start the run; return it as the database has it afterwards."""
    try:
        await RunStarts(RunReports(store, logging.getLogger("portal-test")), hub, store).begin(RUN)
    finally:
        found = await store.table(RunTable).get(RUN.user, RUN.id)
        assert len(hub.asked) == 1, "it is asked for once"
    return found


async def test_what_the_hub_is_asked_for(store: Store) -> None:
    hub = FakeHub()
    assert await begun(store, hub) == RUN
    assert hub.asked[0][2]["run"]["resumes"] == 2


@pytest.mark.parametrize(
    ("start", "runs", "sentence"),
    [
        (NotAllowed("You may not."), {"running": RUNNING}, "You may not"),
        (AWAY, {"running": {}}, "Try again in a moment"),
        (AWAY, {"trouble": NotFound("No such server.")}, "Try again in a moment"),
    ],
)
async def test_nothing_is_left_of_a_run_that_did_not_begin(
    store: Store, start: PortalError, runs: Any, sentence: str
) -> None:
    with pytest.raises(PortalError, match=sentence):
        await begun(store, FakeHub(refusal=start, **runs))
    assert await store.table(RunTable).get(RUN.user, RUN.id) is None


async def test_an_answer_that_is_lost_is_asked_for(store: Store) -> None:
    """The Hub waits for a Slurm that is away, longer than anyone waits for the Hub."""
    assert await begun(store, FakeHub(refusal=AWAY, running=RUNNING)) == RUN


async def test_a_run_of_which_nothing_is_known_stays(store: Store) -> None:
    """A Hub that was killed may have submitted its job: the points report to it then."""
    with pytest.raises(
        HubUnavailable, match="it is not known whether it has started the run 'rates'"
    ):
        await begun(store, FakeHub(refusal=AWAY, trouble=AWAY))
    assert await store.table(RunTable).get(RUN.user, RUN.id) == RUN


async def repeated(store: Store, hub: FakeHub, run: Run = RUN) -> None:
    """The session asks once more: it has had no answer."""
    await RunStarts(RunReports(store, logging.getLogger("portal-test")), hub, store).begin(run)


async def test_a_repeated_request_finds_the_run_by_its_id(store: Store) -> None:
    with pytest.raises(HubUnavailable):
        await begun(store, FakeHub(refusal=AWAY, trouble=AWAY))
    hub = FakeHub()
    await repeated(store, hub)
    assert len(hub.asked) == 1, "the Hub may not have begun"
    running = Conflict("It is already running.")
    await repeated(store, FakeHub(refusal=running, running=RUNNING))
    await store.table(RunTable).note_jobs({(RUN.user, RUN.id): "12"})
    await repeated(store, hub)
    await store.table(RunTable).end(RUN.user, RUN.id, time.time())
    await repeated(store, hub)
    assert len(hub.asked) == 1, "what has a job is never started twice"
    assert await store.table(RunTable).get(RUN.user, RUN.id) is not None


async def test_another_run_of_the_same_id_is_refused(store: Store) -> None:
    await begun(store, FakeHub())
    hub = FakeHub()
    with pytest.raises(Conflict, match="already have a run with the id"):
        await repeated(store, hub, RUN.model_copy(update={"points": 5}))
    assert hub.asked == []
