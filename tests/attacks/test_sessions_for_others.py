"""Starting GPU sessions as people who never agreed, who are charged for them: an instructor puts
anybody's name on a roster."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from datetime import date, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from courses_site import DEEP, Site, running
from stored_courses import a_course, stored

from portal.courses.definition.readiness import _joined
from portal.courses.live.board import ClusterState, Rows, tiles
from portal.courses.roster.joining import NOT_JOINED, not_joined, takes_joining
from portal.courses.settings import Courses
from portal.courses.start.starting import Starter
from portal.models.course.course import Course, CourseMember, StoredCourse
from portal.models.course.start import SeatState, StartKind
from portal.models.space import Role
from portal.store import Store

TODAY = date.today()
NOW: dict[str, Any] = {
    "begins": (TODAY - timedelta(days=2)).isoformat(),
    "ends": (TODAY + timedelta(weeks=9)).isoformat(),
}
GPU = {"gpus": 1, "cpus": 2, "memory": "4G", "time": "2:00:00"}
BARE = {**GPU, "gpus": 0}


def course(**more: Any) -> Course:
    return a_course(**{**DEEP, **NOW, **more})


def kept(**more: Any) -> StoredCourse:
    return stored(course(**more))


def member(person: str = "eve", **more: Any) -> CourseMember:
    return CourseMember(course="deep", person=person, role=Role.STUDENT, **more)


# -- the rule ------------------------------------------------------------------------------------


@pytest.mark.parametrize("joined_at", [None, 0.0, 5.0])
@pytest.mark.parametrize("default", [GPU, BARE, {**GPU, "gpus": 4}, {**GPU, "account": "class"}])
@pytest.mark.parametrize("account", [None, "teaching"])
def test_who_has_not_joined_is_charged_for_nothing(
    joined_at: float | None, default: dict[str, Any], account: str | None
) -> None:
    one = course(default=default, account=account, largest={"gpus": 4})
    free = not default["gpus"] or account is not None or "account" in default
    assert takes_joining(one) is not free
    assert not_joined(one, member(joined_at=joined_at)) is (joined_at is None and not free)


# -- all at once, ahead of a meeting, as a rehearsal ---------------------------------------------


@pytest.mark.parametrize("kind", list(StartKind))
@pytest.mark.parametrize("people", [None, ["eve"], ["eve", "ada"]])
async def test_a_start_leaves_them_out(
    kind: StartKind, people: list[str] | None, store: Store
) -> None:
    context: Any = SimpleNamespace(
        store=store,
        settings=Courses(),
        log=None,
        wall=lambda: 1000.0,
        uptime=time.monotonic,
        hub=None,
    )
    one = kept()
    await store.courses.add_space(one, [member("eve"), member("ada"), member("bob")])
    assert await store.members.join("deep", "ada", 5.0)
    start = await Starter(context).start(one, kind, "barbara", people=people)
    seats = {seat.person: seat for seat in await store.starts.seats(start.id)}
    assert (seats["eve"].state, seats["eve"].message) == (SeatState.SKIPPED, NOT_JOINED)
    if people is None or "ada" in people:
        assert seats["ada"].state is SeatState.WAITING
    account = kept(name="paid", account="teaching")
    await store.courses.add_space(account, [member("eve").model_copy(update={"course": "paid"})])
    start = await Starter(context).start(account, kind, "barbara")
    assert [s.state for s in await store.starts.seats(start.id)] == [SeatState.WAITING]


# -- one by one ----------------------------------------------------------------------------------


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with running(tmp_path) as made:
        made.hub.started = []  # type: ignore[attr-defined]

        async def start_server(user: str, server: str, options: Any) -> None:
            made.hub.started.append(user)  # type: ignore[attr-defined]

        async def runs(user: str, server: str) -> bool:
            return False

        made.hub.start_server = start_server  # type: ignore[attr-defined]
        made.hub.runs = runs  # type: ignore[attr-defined]
        yield made


@pytest.mark.parametrize("who", ["barbara", "ada", "grace"])  # instructor, assistant, admin
@pytest.mark.parametrize("how", ["start", "restart"])
@pytest.mark.parametrize("joins", ["join", "open"])
async def test_nobody_starts_it_until_they_join(site: Site, who: str, how: str, joins: str) -> None:
    await site.approved(**NOW)
    await site.put("deep", student01=Role.STUDENT, ada=Role.ASSISTANT)
    path = f"courses/deep/people/student01/{how}"
    error = await site.refused(409, who, "POST", path)
    assert "student01 has not joined the course yet" in error["message"]
    assert "Join" in error["message"] and "account" in error["message"]
    started: list[str] = site.hub.started  # type: ignore[attr-defined]
    assert started == []
    # Nobody joins for another: not its staff, not who is in no course.
    await site.done(who if who != "grace" else "barbara", "POST", "courses/deep/join")
    await site.refused(403, "eve", "POST", "courses/deep/join")
    await site.refused(403, "eve", "POST", "courses/deep/open", {})
    await site.refused(409, who, "POST", path)
    assert started == []
    body = None if joins == "join" else {}
    await site.done("student01", "POST", f"courses/deep/{joins}", body)
    await site.done(who, "POST", path)
    assert started[-1] == "student01"


@pytest.mark.parametrize("more", [{"account": "teaching"}, {"default": BARE}])
async def test_what_charges_nobody_starts(site: Site, more: dict[str, Any]) -> None:
    await site.approved(**{**NOW, **more})
    await site.put("deep", student01=Role.STUDENT)
    await site.done("barbara", "POST", "courses/deep/people/student01/start")
    assert site.hub.started == ["student01"]  # type: ignore[attr-defined]


async def test_taken_off_and_put_back_they_join_again(site: Site) -> None:
    await site.approved(**NOW)
    await site.put("deep", student01=Role.STUDENT)
    await site.done("student01", "POST", "courses/deep/join")
    (before,) = await site.parts.store.members.of_person("student01")
    await site.put("deep", student01=Role.ASSISTANT)  # another role is the same person
    (after,) = await site.parts.store.members.of_person("student01")
    assert before.joined_at is not None and after.joined_at == before.joined_at
    assert not await site.parts.store.members.join("deep", "student01", 7.0), "the first stays"
    await site.parts.store.members.remove("deep", ["student01"])
    await site.put("deep", student01=Role.STUDENT)
    await site.refused(409, "barbara", "POST", "courses/deep/people/student01/start")


# -- it is said ----------------------------------------------------------------------------------


def test_the_board_says_so() -> None:
    rows = Rows(members=[member("ada", joined_at=5.0), member("eve")])
    words = {tile.person: tile.words for tile in tiles(kept(), rows, ClusterState())}
    assert words == {"ada": "", "eve": NOT_JOINED}
    assert "press Join" in NOT_JOINED and "its own Slurm account" in NOT_JOINED
    paid = tiles(kept(account="teaching"), rows, ClusterState())
    assert {tile.words for tile in paid} == {""}


def test_readiness_says_so_before_the_meeting() -> None:
    point = _joined([member("ada", joined_at=5.0), member("eve")], kept())
    assert point is not None and (point.sign, point.people) == ("warn", ("eve",))
    assert "eve has not joined yet" in point.message
    point = _joined([member("ada", joined_at=5.0)], kept())
    assert point is not None and point.sign == "good"
    assert _joined([member()], kept(account="teaching")) is None
