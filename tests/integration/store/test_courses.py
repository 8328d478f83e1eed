"""Courses, who is in them, and what they used, as they are kept."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from session_records import recorded
from stored_courses import a_course, stored

from portal.errors import Conflict, NotFound
from portal.models.catalog.environment import Environment
from portal.models.course.course import CourseMember, StoredCourse
from portal.models.session.session import SessionState
from portal.models.session.usage import JobUsage
from portal.models.space import Role, SpaceState
from portal.store import Store

LAB = Environment(name="lab", title="Lab", kind="container", image="/images/lab.sif")


def kept(name: str = "deep", **more: Any) -> StoredCourse:
    weekly = [{"day": 1, "begins": "09:00", "minutes": 90}]
    about = {"title": "Deep Learning: für alle", "weekly": weekly, "without": ["2026-12-24"]}
    values = {"pinned": LAB, "state": SpaceState.DRAFT, "created_at": 1.5, "changed_at": 2.5}
    return stored(a_course(name, **about), **(values | more))


def member(person: str, role: Role = Role.STUDENT, course: str = "deep") -> CourseMember:
    return CourseMember(course=course, person=person, role=role, added_by="barbara", added_at=1.0)


async def test_what_is_kept_comes_back(store: Store) -> None:
    one = kept(answer="Yes.", answered_by="grace", answered_at=3.5)
    await store.courses.add_space(one, [member("barbara", Role.INSTRUCTOR), member("student01")])
    assert await store.courses.get("deep") == one
    assert [(m.person, m.role) for m in await store.members.of_space("deep")] == [
        ("barbara", Role.INSTRUCTOR),
        ("student01", Role.STUDENT),
    ]
    with pytest.raises(Conflict, match="A course 'deep' already exists"):
        await store.courses.add_space(kept(), [member("ian", Role.INSTRUCTOR)])
    assert len(await store.members.of_space("deep")) == 2  # nothing of the second one was kept
    with pytest.raises(NotFound):
        await store.courses.get("nowhere")


async def test_of_two_who_save_one_is_told(store: Store) -> None:
    await store.courses.add_space(kept())
    seen = await store.courses.get("deep")
    answers = await asyncio.gather(
        store.courses.save(seen.model_copy(update={"answer": "first"})),
        store.courses.save(seen.model_copy(update={"answer": "second"})),
        return_exceptions=True,
    )
    assert sorted(type(one).__name__ for one in answers) == ["Conflict", "StoredCourse"]
    assert (await store.courses.get("deep")).number == 2
    with pytest.raises(NotFound):
        await store.courses.save(kept("nowhere"))


async def test_by_state(store: Store) -> None:
    await store.courses.add_space(kept("b", state=SpaceState.APPROVED))
    await store.courses.add_space(kept("a", state=SpaceState.REQUESTED))
    await store.courses.add_space(kept("c"))
    assert [one.name for one in await store.courses.all()] == ["a", "b", "c"]
    some = await store.courses.all(SpaceState.APPROVED, SpaceState.REQUESTED)
    assert [one.name for one in some] == ["a", "b"]


async def test_people_come_change_and_go(store: Store) -> None:
    table = store.members
    await table.put([])
    await table.put([member(f"s{n:04}") for n in range(1500)])
    await table.put([member("s0001", Role.ASSISTANT), member("s0001", course="other")])
    mine = {one.course: one.role for one in await table.of_person("s0001")}
    assert mine == {"deep": Role.ASSISTANT, "other": Role.STUDENT}
    await table.remove("deep", ["s0001", "nobody"])
    assert [one.course for one in await table.of_person("s0001")] == ["other"]
    assert len(await table.of_space("deep")) == 1499


async def test_what_a_course_used(store: Store) -> None:
    for number, (user, course) in enumerate(
        [("ada", "deep"), ("ada", "deep"), ("ada", "other"), ("ian", "deep")]
    ):
        await store.sessions.save(
            recorded(
                id=f"s{number}", user=user, space=course, state=SessionState.ENDED,
                submitted_at=10.0 + number,
            )
        )  # fmt: skip
        days = [
            JobUsage(
                job_id=str(number), submitted_at=1, day=day, user=user, course=course, gpus=1,
                held=1800, used=600, measured=0 if user == "ian" else 900,
            )
            for day in ("2026-11-21", "2026-11-22")
        ]  # fmt: skip
        await store.usage.add_seconds(days)
    assert await store.sessions.counted("deep") == {"ada": (2, 11.0), "ian": (1, 13.0)}
    assert await store.sessions.counted("nowhere") == {}
    ada, ian = await store.usage.by_person("deep")
    assert (ada.key, ada.jobs, ada.held_hours, ada.measured_share) == ("ada", 2, 2.0, 0.5)
    assert (ian.key, ian.held_hours, ian.used_hours) == ("ian", 1.0, None)
    assert await store.usage.of_space("deep") == 3.0
