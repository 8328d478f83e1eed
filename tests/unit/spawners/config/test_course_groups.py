"""Groups and pages of courses while the database answers, hangs, or is away."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from machine_clock import awake
from test_course_launch import COURSE, at, dl101

from portal.courses.roster import my_courses
from portal.courses.schedule.next_meeting import next_meeting
from portal.errors import StoreUnavailable
from portal.models.course.course import CourseMember, WeeklyTime
from portal.models.space import Role, SpaceState
from portal.spaces.membership_cache import MembershipCache
from spawners.config import course_groups


class Members:
    """The two tables, with one course per state. ``trouble``: what a question meets."""

    def __init__(self) -> None:
        self.trouble: Exception | None = None
        self.hangs = False
        self.asked = 0

    async def of_person(self, person: str) -> list[CourseMember]:
        self.asked += 1
        if self.hangs:
            await asyncio.sleep(60)
        if self.trouble:
            raise self.trouble
        names = [str(state) for state in SpaceState] if person == "ada" else []
        return [CourseMember(course=one, person=person, role=Role.STUDENT) for one in names]

    async def get(self, name: str) -> Any:
        course = COURSE.model_copy(update={"name": name, "title": name.title()})
        return dl101(course=course, state=SpaceState(name))


@pytest.fixture
def members(monkeypatch: pytest.MonkeyPatch) -> Members:
    made = Members()
    memberships = MembershipCache(made.get, made.of_person, age=0)  # type: ignore[arg-type]
    groups = [SimpleNamespace(name=one) for one in ("gpu-users", "course-known")]
    user = SimpleNamespace(groups=groups)
    hub = SimpleNamespace(config=None, db=None, log=logging.getLogger("hub"))
    monkeypatch.setattr(course_groups, "JupyterHub", SimpleNamespace(instance=lambda: hub))
    monkeypatch.setattr(course_groups, "PATIENCE", 0.05)
    monkeypatch.setattr(course_groups, "role_groups", lambda: {"hpc-operators"})
    monkeypatch.setattr(
        course_groups,
        "HubContext",
        SimpleNamespace(instance=lambda config: SimpleNamespace(memberships=memberships)),
    )
    monkeypatch.setattr(
        course_groups,
        "orm",
        SimpleNamespace(
            User=SimpleNamespace(find=lambda db, name: user if name == "ada" else None)
        ),
    )
    made.memberships = memberships  # type: ignore[attr-defined]
    return made


async def test_the_groups_are_those_of_approved_courses(members: Members) -> None:
    assert await course_groups.course_groups("ada") == ("course-approved",)
    assert await course_groups.course_groups("grace") == ()


async def test_no_course_makes_admins_or_instructors(
    members: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is its instructor's choice, and the Hub gives roles by the names of groups."""
    monkeypatch.setattr(course_groups, "role_groups", lambda: {"course-approved"})
    assert await course_groups.course_groups("ada") == ()


@pytest.mark.parametrize("how", ["away", "hangs"])
async def test_without_the_database_what_the_hub_knows_stays(members: Members, how: str) -> None:
    members.trouble = StoreUnavailable("It does not answer.") if how == "away" else None
    members.hangs = how == "hangs"
    began = awake()
    assert await course_groups.course_groups("ada") == ("course-known",)
    assert await course_groups.course_groups("grace") == ()
    assert awake() - began < 2


@pytest.mark.parametrize("how", ["away", "hangs"])
async def test_no_page_waits_for_the_database(members: Members, how: str) -> None:
    members.trouble = StoreUnavailable("It does not answer.") if how == "away" else None
    members.hangs = how == "hangs"
    began = awake()
    assert await my_courses.courses_of(members.memberships, "ada") == ()  # type: ignore[attr-defined]
    assert awake() - began < 2


@pytest.mark.parametrize("how", ["away", "hangs"])
async def test_a_page_has_the_courses_that_were_known(members: Members, how: str) -> None:
    memberships = members.memberships  # type: ignore[attr-defined]
    found = await my_courses.courses_of(memberships, "ada")
    assert "approved" in [one.name for one in found]
    members.trouble = StoreUnavailable("It does not answer.") if how == "away" else None
    members.hangs = how == "hangs"
    assert await my_courses.courses_of(memberships, "ada") == found
    assert await my_courses.courses_of(memberships, "grace") == ()


def test_the_courses_of_a_page_in_the_order_of_their_meetings() -> None:
    def membership(name: str, day: int | None, role: Role = Role.STUDENT, **more: Any) -> Any:
        weekly = () if day is None else (WeeklyTime(day=day, begins="10:00", minutes=90),)
        course = COURSE.model_copy(update={"name": name, "weekly": weekly, **more})
        return SimpleNamespace(stored=dl101(course=course), role=role)

    later = COURSE.begins.replace(year=2026, month=12)
    mine = [
        membership("a-none", None),
        membership("b-tuesday", 1, Role.ASSISTANT),
        membership("c-monday", 0),
        membership("d-later", 0, begins=later),
    ]
    shown = my_courses.my_courses(mine, at("2026-11-23T09:50"))
    assert [one.name for one in shown] == ["c-monday", "b-tuesday", "a-none", "d-later"]
    assert [course.staff for course in shown] == [False, True, False, False]
    assert shown[0].meeting == "The course meets in 10 min, at 10:00."
    assert shown[1].meeting == "The course meets tomorrow at 10:00."
    assert shown[3].closed.endswith("begins on 1 December 2026.")
    assert my_courses.my_courses(mine, at("2027-02-02T00:00")) == ()


@pytest.mark.parametrize(
    ("now", "words"),
    [
        ("2026-11-23T10:00", "The meeting runs until 11:30."),
        ("2026-11-23T11:29", "The meeting runs until 11:30."),
        ("2026-11-23T09:59", "The course meets in 1 min, at 10:00."),
        ("2026-11-23T08:00", "The course meets today at 10:00."),
        ("2026-11-20T08:00", "The course meets on Monday, 23 November at 10:00."),
        ("2026-08-20T08:00", ""),
    ],
)
def test_when_a_course_meets_next(now: str, words: str) -> None:
    monday = WeeklyTime(day=0, begins="10:00", minutes=90)
    assert next_meeting(COURSE.model_copy(update={"weekly": (monday,)}), at(now)) == words
