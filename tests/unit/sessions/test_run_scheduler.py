"""Starts of scheduled runs: each time once, whatever happens meanwhile. The clock is played."""

from __future__ import annotations

import logging
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from fake_hub import FakeHub

from portal.errors import (
    HubUnavailable,
    NotAllowed,
    NotFound,
    PortalError,
    StoreUnavailable,
    TooManyRequests,
)
from portal.models.audit import AuditEntry
from portal.models.session.run import Run, RunEvent
from portal.models.session.run_schedule import RunSchedule
from portal.store import Store
from portal.work.run.launches.scheduler import RunScheduler, start_id
from portal.work.run.launches.starts import RunStarts
from portal.work.run.reports import RunReports
from portal.work.run.settings import Runs
from portal.work.run.tables.notices import RunNoticeTable
from portal.work.run.tables.runs import RunTable
from portal.work.run.tables.schedules import RunScheduleTable

LOG = logging.getLogger("portal-test")
ID = str(uuid.UUID(int=7))
DAY = 86_400.0
OLD, NEW = (f"sha256:{digit * 64}" for digit in "01")
FIRST = datetime(2026, 11, 23, 2, 0, tzinfo=UTC).timestamp()  # a Monday


def original(name: str = "train", id_: str = "5e2f3c1a") -> Run:
    return Run(
        id=id_,
        name=name,
        source="train.py",
        folder=f"/home/ada/runs/{name}",
        points=3,
        at_once=2,
        user="ada",
        server=f"run-{id_}",
        environment="lab",
        resources={"gpus": 1},
        created_at=FIRST - DAY,
    )


class Site:
    """A service, which can be started anew."""

    def __init__(self, store: Store) -> None:
        self.store, self.hub, self.noted = store, FakeHub(running={}), list[AuditEntry]()
        self.limits = Runs(schedule_late=3600)
        self.restart()

    def restart(self) -> None:
        starts = RunStarts(RunReports(self.store, LOG), self.hub, self.store)
        self.scheduler = RunScheduler(
            self.store, starts, self.hub, self.limits, self.digest, self.note, LOG
        )

    async def digest(self, run: Run) -> str:
        assert run.environment == "lab"
        return NEW

    async def note(self, entry: AuditEntry) -> None:
        self.noted.append(entry)

    async def add_runs(self, *runs: Run, **more: Any) -> None:
        values = {
            "user": "ada",
            "id": ID,
            "name": "train",
            "at": "02:00",
            "timezone": "UTC",
            "runs": runs or (original(),),
            "notify": (RunEvent.END, RunEvent.FAILURE),
            "created_at": FIRST - DAY,
            "next_at": FIRST,
        }
        await self.store.table(RunScheduleTable).add_schedule(RunSchedule(**{**values, **more}), 5)

    @property
    def names(self) -> list[str]:
        return [options["run"]["name"] for *_, options in self.hub.begun]

    async def schedule(self) -> RunSchedule:
        return await self.store.table(RunScheduleTable).get("ada", ID)

    async def end_runs(self) -> None:
        for run in await self.store.table(RunTable).living():
            await self.store.table(RunTable).end("ada", run.id, FIRST)


@pytest.fixture
def site(store: Store) -> Site:
    return Site(store)


async def test_each_time_is_served_once(site: Site) -> None:
    await site.add_runs()
    await site.scheduler.start_due(FIRST - 1)
    assert site.names == []
    for seconds in (0, 15, 30):
        await site.scheduler.start_due(FIRST + seconds)
        site.restart()
    assert site.names == ["train-2026-11-23"]
    (*_, options), schedule = site.hub.begun[0], await site.schedule()
    assert options["gpus"] == 1 and options["environment"] == "lab"
    assert options["run"]["origin"]["folder"] == "/home/ada/runs/train"
    assert (schedule.next_at, schedule.last_at) == (FIRST + DAY, FIRST)
    assert (schedule.starting_at, schedule.message, schedule.untold) == (None, "", "")
    (run_id,) = schedule.last_runs
    assert set(await site.store.table(RunNoticeTable).of_run("ada", run_id)) == {"end", "failure"}
    await site.end_runs()
    await site.scheduler.start_due(FIRST + DAY)
    assert site.names == ["train-2026-11-23", "train-2026-11-24"]
    assert [(e.actor, e.action, e.owner) for e in site.noted] == [
        ("portal", "start-run", "ada")
    ] * 2


@pytest.mark.parametrize(("version", "digest"), [(3, OLD), (0, NEW)])
async def test_the_environment_is_that_of_the_original(
    site: Site, version: int, digest: str
) -> None:
    """Without a version nothing but its name is known, and it is as it is now."""
    await site.add_runs(original().model_copy(update={"version": version, "digest": OLD}))
    await site.scheduler.start_due(FIRST)
    ((*_, options),) = site.hub.begun
    assert options["run"].get("version", 0) == version and options["run"]["digest"] == digest


async def test_a_run_of_a_course_stays_one(site: Site) -> None:
    """Then the Hub refuses it once the course is over."""
    await site.add_runs(original().model_copy(update={"course": "deep"}))
    await site.scheduler.start_due(FIRST)
    ((*_, options),) = site.hub.begun
    assert options["run"]["course"] == "deep"


async def test_the_previous_one_still_runs(site: Site) -> None:
    await site.add_runs()
    await site.scheduler.start_due(FIRST)
    await site.scheduler.start_due(FIRST + DAY)
    schedule = await site.schedule()
    assert len(site.hub.begun) == 1 and schedule.next_at == FIRST + 2 * DAY
    assert schedule.message == (
        "Not started at 02:00 on Tuesday, 24 November, because 'train-2026-11-23' was still "
        "waiting or running."
    )
    assert schedule.untold == "" and schedule.refusals == 0
    await site.end_runs()
    await site.scheduler.start_due(FIRST + 2 * DAY)
    assert len(site.hub.begun) == 2 and (await site.schedule()).message == ""


@pytest.mark.parametrize("seconds", [3500, 2 * DAY + 3500])
async def test_the_service_was_away_for_a_while(site: Site, seconds: float) -> None:
    await site.add_runs()
    await site.scheduler.start_due(FIRST + seconds)
    assert len(site.names) == 1
    assert (await site.schedule()).next_at == FIRST + (1 + seconds // DAY) * DAY


async def test_a_time_was_missed(site: Site) -> None:
    await site.add_runs()
    await site.scheduler.start_due(FIRST + 3700)
    schedule = await site.schedule()
    missed = "The start at 02:00 on Monday, 23 November was missed. The portal was not running."
    assert site.names == [] and schedule.message == schedule.untold == missed
    assert (schedule.next_at, schedule.last_at) == (FIRST + DAY, FIRST)
    await site.scheduler.start_due(FIRST + DAY)
    assert site.names == ["train-2026-11-24"]


@pytest.mark.parametrize(
    "error", [HubUnavailable("The Hub is away."), TooManyRequests("Not so many.")]
)
async def test_a_start_is_tried_until_it_is_too_late(site: Site, error: PortalError) -> None:
    await site.add_runs()
    site.hub.refusal = error
    for seconds in (0, 15, 3590):
        await site.scheduler.start_due(FIRST + seconds)
        site.restart()
    schedule = await site.schedule()
    assert schedule.message == error.message and schedule.starting_at == FIRST
    assert await site.store.table(RunTable).living() == []
    site.hub.refusal = None
    await site.scheduler.start_due(FIRST + 3599)
    assert site.names == ["train-2026-11-23"] and (await site.schedule()).message == ""
    await site.end_runs()
    site.hub.refusal = error
    await site.scheduler.start_due(FIRST + DAY)
    await site.scheduler.start_due(FIRST + DAY + 3601)
    schedule = await site.schedule()
    assert schedule.untold.endswith(f"24 November was missed. {error.message}")
    assert len(site.hub.begun) == 1 and schedule.starting_at is None


async def test_a_kill_at_any_moment_starts_nothing_twice(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after the intention, before and after a launch, and before the end is noted."""
    await site.add_runs(original("prepare", "6e2f3c1a"), original())
    with monkeypatch.context() as patch:
        patch.setattr(site.store.table(RunTable), "names", _killed)
        with pytest.raises(KeyboardInterrupt):
            await site.scheduler.start_due(FIRST)
    assert site.names == [] and (await site.schedule()).starting_at == FIRST
    site.restart()
    site.hub.refusal = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        await site.scheduler.start_due(FIRST + 10)
    assert len(await site.store.table(RunTable).living()) == 1 and site.names == []
    site.restart()
    site.hub.refusal, site.hub.lost = None, KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        await site.scheduler.start_due(FIRST + 15)
    assert site.names == ["prepare-2026-11-23"]
    site.restart()
    with monkeypatch.context() as patch:
        patch.setattr(site.scheduler, "_finish", _killed)
        with pytest.raises(KeyboardInterrupt):
            await site.scheduler.start_due(FIRST + 30)
    site.restart()
    for seconds in (45, 60):
        await site.scheduler.start_due(FIRST + seconds)
    assert site.names == ["prepare-2026-11-23", "train-2026-11-23"]
    schedule = await site.schedule()
    assert schedule.starting_at is None and len(schedule.last_runs) == 2


async def _killed(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


async def test_an_answer_of_the_hub_that_was_lost(site: Site) -> None:
    await site.add_runs()
    site.hub.lost = HubUnavailable("The Hub does not answer.")
    await site.scheduler.start_due(FIRST)
    assert len(site.hub.begun) == 1 and len(await site.store.table(RunTable).living()) == 1
    await site.scheduler.start_due(FIRST + 15)
    assert len(site.hub.begun) == 1
    (run,) = await site.store.table(RunTable).living()
    assert (await site.schedule()).last_runs == (run.id,)


async def test_a_chain_is_repeated_in_its_order(site: Site) -> None:
    runs = (original("prepare", "6e2f3c1a"), original(), original("report", "7e2f3c1a"))
    await site.add_runs(*runs)
    await site.scheduler.start_due(FIRST)
    schedule = await site.schedule()
    ids = [start_id(schedule, FIRST, position) for position in range(3)]
    assert schedule.last_runs == tuple(ids)
    asked = [options["run"] for *_, options in site.hub.begun]
    assert [run["id"] for run in asked] == ids
    assert [run.get("after", "") for run in asked] == ["", *ids[:2]]
    wanted = [set(await site.store.table(RunNoticeTable).of_run("ada", id_)) for id_ in ids]
    assert wanted == [{"failure"}, {"failure"}, {"end", "failure"}]
    await site.store.table(RunTable).end("ada", ids[0], FIRST)
    await site.scheduler.start_due(FIRST + DAY)
    assert len(site.hub.begun) == 3, "the rest of the chain still waits"


async def test_refusals_are_kept_and_pause_the_schedule(site: Site) -> None:
    await site.add_runs(original("prepare", "6e2f3c1a"), original())
    site.hub.refusal = NotAllowed("You are not in the group 'ai'.")
    site.hub.refuses = lambda options: "train" in options["run"]["name"]
    for day in range(5):
        await site.scheduler.start_due(FIRST + day * DAY)
        schedule = await site.schedule()
        assert schedule.refusals == day + 1
        assert schedule.message == schedule.untold and "'train' was not started at 02:00 on" in (
            schedule.message
        )
        assert "You are not in the group 'ai'." in schedule.message
        await site.end_runs()
    assert site.names == [f"prepare-2026-11-{day}" for day in (23, 24, 25, 26, 27)]
    assert schedule.paused and schedule.next_at is None
    assert "refused 5 times in a row and is now paused" in schedule.message
    assert {str(entry.outcome) for entry in site.noted} == {"refused"}
    await site.scheduler.start_due(FIRST + 9 * DAY)
    assert len(site.hub.begun) == 5


async def test_a_success_counts_refusals_anew_and_none_is_mailed_unasked(site: Site) -> None:
    await site.add_runs(notify=(), refusals=4)
    site.hub.refusal = NotAllowed("No.")
    await site.scheduler.start_due(FIRST)
    assert (await site.schedule()).paused and (await site.schedule()).untold == ""
    schedule = await site.schedule()
    await site.store.table(RunScheduleTable).change(
        schedule, paused=False, next_at=FIRST + DAY, refusals=4
    )
    site.hub.refusal = None
    await site.scheduler.start_due(FIRST + DAY)
    assert (await site.schedule()).refusals == 0


async def test_one_that_was_deleted_or_paused_meanwhile(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.add_runs()
    (due,) = await site.store.table(RunScheduleTable).due(FIRST)
    assert await site.store.table(RunScheduleTable).change(due, paused=True, next_at=None)
    assert not await site.store.table(RunScheduleTable).change(due, starting_at=FIRST)
    await site.scheduler.start_due(FIRST)
    await site.store.table(RunScheduleTable).remove("ada", ID)
    with pytest.raises(NotFound):
        await site.store.table(RunScheduleTable).remove("ada", ID)
    assert site.names == []


async def test_a_site_without_schedules_starts_none(site: Site) -> None:
    await site.add_runs()
    site.limits.schedules = 0
    await site.scheduler.start_due(FIRST)
    assert site.names == []


async def test_the_limit_of_a_user(site: Site) -> None:
    await site.add_runs()
    for number in range(4):
        await site.add_runs(id=str(uuid.UUID(int=number)))
    with pytest.raises(NotAllowed, match="You have 5 schedules; the limit is 5"):
        await site.add_runs(id=str(uuid.UUID(int=9)))
    await site.add_runs(id=ID, user="barbara")
    assert len(await site.store.table(RunScheduleTable).of_user("ada")) == 5


async def test_the_database_is_away(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: Any) -> None:
        raise StoreUnavailable("The database does not answer.")

    await site.add_runs()
    with monkeypatch.context() as patch:
        patch.setattr(site.store.table(RunTable), "add_run", away)
        await site.scheduler.start_due(FIRST)
    await site.scheduler.start_due(FIRST + 15)
    assert site.names == ["train-2026-11-23"]


async def test_nothing_starts_for_a_user_who_can_no_longer_log_in(site: Site) -> None:
    await site.add_runs()
    site.hub.strangers = {"ada"}
    for day in range(5):
        await site.scheduler.start_due(FIRST + day * DAY)
    schedule = await site.schedule()
    assert site.names == [] and schedule.paused
    assert "'ada' can no longer log in to this portal." in schedule.message
