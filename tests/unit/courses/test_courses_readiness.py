"""Whether a course can be held, before anybody finds out at nine o'clock; and what it has used."""

from __future__ import annotations

import pwd
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from clusters import gpu_node
from courses_site import DEEP, Cluster, Site, running, snapshot
from session_records import recorded
from stored_courses import a_course, stored

from portal.courses.definition.demand import demand_of
from portal.courses.roster.homes import HomeFinder
from portal.errors import SlurmUnavailable
from portal.models.cluster.cluster import Association, Partition, Reservation
from portal.models.course.course import StoredCourse
from portal.models.session.session import SessionState
from portal.models.session.usage import JobUsage
from portal.models.space import Role, SpaceState
from portal.work.course.parts import CourseParts


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with running(tmp_path) as made:
        yield made


def kept(**more: Any) -> StoredCourse:
    return stored(a_course(**DEEP | more), state=SpaceState.DRAFT)


@pytest.mark.parametrize(
    ("more", "students", "seats", "words"),
    [
        (
            {},
            30,
            8,
            "30 students need 30 GPUs, 60 with the maximum resources; the partition 'gpu' has 8, "
            "8 of them free now, so 8 sessions fit at once.",
        ),
        (
            {"largest": {"gpus": 1}},
            8,
            8,
            "8 students need 8 GPUs; the partition 'gpu' has 8, 8 of them free now.",
        ),
        ({}, 1, 8, "1 student needs"),
        ({"default": {"gpus": 3}}, 3, 2, "3 students need 9 GPUs"),
        ({"default": {"gpus": 1, "gpu_type": "v100"}}, 3, 8, "need 3 v100 GPUs"),
        ({"default": {"gpus": 1, "gpu_type": "h100"}}, 3, 0, "'gpu' has 0"),
        ({"default": {"gpus": 1, "partition": "cpu"}}, 3, 0, "'cpu' has 0"),
        ({"default": {"gpus": 1, "memory": "32G"}}, 3, 4, "need 3 GPUs"),
        ({"default": {"cpus": 4}}, 9, 8, "9 students need no GPUs, 18 with the"),
        (
            {"reservation": {"nodes": 1}},
            8,
            4,
            ", and 4 sessions fit on the 1 reserved node at once.",
        ),
    ],
)
def test_demand_against_supply(more: Any, students: int, seats: int, words: str) -> None:
    found = demand_of(kept(**more), students, snapshot())
    assert found.seats == seats
    assert words in found.words


def test_only_the_partition_of_the_sessions_is_counted() -> None:
    """Without a partition in the definition, that in which the launch puts them: the cluster has
    more nodes, which the class never gets."""
    now = snapshot()
    other = gpu_node("gpu09", "v100", 4, partitions=("staff",))
    closed = Partition(name="staff", nodes=("gpu09",), allow_accounts=("staff",))
    now = now.model_copy(
        update={
            "nodes": now.nodes | {"gpu09": other},
            "partitions": now.partitions | {"staff": closed},
        }
    )
    found = demand_of(kept(), 30, now)
    assert (found.seats, found.gpus_there) == (8, 8)
    assert "; the partition 'gpu' has 8, " in found.words
    found = demand_of(kept(account="staff", default={"gpus": 1, "partition": "staff"}), 30, now)
    assert (found.seats, found.gpus_there) == (4, 4)
    assert found.words.count(".") == 1, "one sentence"


def test_nodes_that_do_not_work_hold_nothing() -> None:
    now = snapshot()
    down = now.nodes["gpu01"].model_copy(update={"state": "DOWN"})
    found = demand_of(kept(), 8, now.model_copy(update={"nodes": now.nodes | {"gpu01": down}}))
    assert (found.seats, found.gpus_there) == (4, 4)
    # One that is switched on when needed holds as many, but nothing is free there now.
    asleep = now.nodes["gpu01"].model_copy(update={"state": "IDLE+POWERED_DOWN"})
    found = demand_of(kept(), 8, now.model_copy(update={"nodes": now.nodes | {"gpu01": asleep}}))
    assert (found.seats, found.gpus_there, found.gpus_free) == (8, 8, 4)


async def test_homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ada").mkdir()
    (tmp_path / "file").write_text("")
    known = {"ada": "ada", "barbara": "nowhere", "ian": "file"}

    def getpwnam(name: str) -> Any:
        return SimpleNamespace(pw_dir=str(tmp_path / known[name]))

    monkeypatch.setattr(pwd, "getpwnam", getpwnam)
    finder = HomeFinder()
    found = await finder.find_homes(["ada", "barbara", "ian", "eve"])
    assert (found.no_account, found.no_home, found.error) == (("eve",), ("barbara", "ian"), "")
    # A machine that knows nobody, or sees no home, says so, and blames no one.
    assert "knows none" in (await finder.find_homes(["eve", "x"])).error
    assert "sees none" in (await finder.find_homes(["barbara"])).error
    # A file system that hangs holds one thread, and the answer comes all the same.
    gate = threading.Event()
    monkeypatch.setattr(pwd, "getpwnam", lambda name: gate.wait(30) or getpwnam(name))
    slow = HomeFinder(patience=0.05)
    try:
        assert "took longer" in (await slow.find_homes(["ada"])).error
        assert "earlier check" in (await slow.find_homes(["ada"])).error
    finally:
        gate.set()


def rows(*accounts: str) -> tuple[Association, ...]:
    return tuple(Association(user="x", account=one) for one in accounts)


async def points_of(site: Site) -> dict[str, dict[str, Any]]:
    answer = await site.done("barbara", "GET", "courses/deep/readiness")
    return {one["key"]: one for one in answer["points"]}


async def test_people_without_slurm_accounts(site: Site) -> None:
    await site.approved(account="teaching")
    await site.put("deep", student01=Role.STUDENT, student02=Role.STUDENT)
    cluster: Cluster = site.parts.cluster  # type: ignore[assignment]
    cluster.accounts = {"barbara": rows("teaching"), "student01": rows("other")}
    found = await points_of(site)
    assert (found["slurm"]["sign"], found["slurm"]["people"]) == ("bad", ["student02"])
    assert "student02 has no Slurm account" in found["slurm"]["message"]
    assert (found["account"]["sign"], found["account"]["people"]) == ("bad", ["student01"])
    assert found["supply"]["sign"] == "good"  # two students, two GPUs each at most
    assert found["image"]["sign"] == "bad"  # /images/lab.sif is nowhere
    cluster.accounts = dict.fromkeys(("barbara", "student01", "student02"), rows("teaching"))
    assert (await points_of(site))["slurm"]["sign"] == "good"
    cluster.accounts = None
    assert "no Slurm accounting" in (await points_of(site))["slurm"]["message"]

    async def away(user: str) -> None:
        raise SlurmUnavailable("slurmdbd does not answer.")

    site.parts.cluster.associations = away  # type: ignore[method-assign]
    slurm = (await points_of(site))["slurm"]
    assert (slurm["sign"], slurm["message"]) == ("unknown", "slurmdbd does not answer.")


async def test_thirty_students_and_eight_gpus(site: Site) -> None:
    await site.approved(budget=10)
    assert (await points_of(site))["roster"]["sign"] == "warn"
    await site.put("deep", **{f"student{n:02}": Role.STUDENT for n in range(1, 31)})
    answer = await site.done("barbara", "GET", "courses/deep/readiness")
    found = {one["key"]: one for one in answer["points"]}
    assert found["supply"]["sign"] == "bad"
    assert "30 students need 30 GPUs, 60 with" in found["supply"]["message"]
    assert answer["demand"]["seats"] == 8 and not answer["ready"]
    # 18 meetings of an hour and a half, 30 students.
    assert "need 810 GPU-hours; the budget is 10" in found["budget"]["message"]
    site.parts.dashboard.view = None
    assert (await points_of(site))["supply"]["sign"] == "unknown"


async def test_what_else_is_reserved_meanwhile(site: Site) -> None:
    await site.approved(reservation={"nodes": 1})
    assert "meetings" not in await points_of(site)
    half_past = [{"day": 0, "begins": "10:00", "minutes": 60}]
    await site.approved("ian", name="other", weekly=half_past, reservation={"nodes": 1})
    clash = (await points_of(site))["meetings"]
    assert clash["sign"] == "warn"
    assert (
        "reserves 1 nodes during 18 meetings, the first on 7 Oct 2030, 09:00" in (clash["message"])
    )
    await site.approved("ian", name="third", weekly=half_past, reservation={"nodes": 2})
    answer = await site.done("barbara", "GET", "courses/deep/readiness")
    signs = [one["sign"] for one in answer["points"] if one["key"] == "meetings"]
    assert signs == ["warn", "bad"]
    begins = 1917586800.0  # 7 October 2030, 09:00 in Berlin
    maintenance = Reservation(
        name="maint", start_time=begins - 60, end_time=begins + 60, nodes=("gpu01",)
    )
    view = site.parts.dashboard.view
    view.snapshot = view.snapshot.model_copy(  # type: ignore[union-attr,misc]
        update={"reservations": {"maint": maintenance}}
    )
    assert (
        "'maint' holds 1 nodes during the meeting of 7 Oct 2030, 09:00"
        in ((await points_of(site))["reservations"]["message"])
    )


async def test_usage_by_student(site: Site) -> None:
    await site.approved()
    await site.put("deep", student01=Role.STUDENT, student02=Role.STUDENT)
    store = site.parts.store
    for number, (user, course) in enumerate(
        [("student01", "deep"), ("student01", "deep"), ("student01", ""), ("=left", "deep")]
    ):
        await store.sessions.save(
            recorded(
                id=f"s{number}", user=user, space=course, state=SessionState.ENDED,
                submitted_at=100.0 + number, ended_at=200.0,
            )
        )  # fmt: skip
        job = JobUsage(
            job_id=str(number), submitted_at=1, day="2026-11-21", user=user, course=course,
            session_id=f"s{number}", gpus=1, held=3600, used=900, measured=1800,
        )  # fmt: skip
        await store.usage.add_seconds([job])
    answer = await site.done("barbara", "GET", "courses/deep/usage")
    assert (answer["gpu_hours"], answer["budget"], answer["simulated"]) == (3.0, 100.0, False)
    found = {one["person"]: one for one in answer["items"]}
    assert found["student01"] == {
        "person": "student01", "role": "student", "sessions": 2, "gpu_hours": 2.0,
        "used_hours": 0.5, "idle_hours": 0.5, "last_at": 101.0,
    }  # fmt: skip
    assert (found["student02"]["sessions"], found["student02"]["last_at"]) == (0, None)
    assert found["=left"]["role"] is None
    csv = await site.ask("barbara", "GET", "courses/deep/usage.csv")
    assert "\n'=left,,1,1.0,0.25,0.25,1970-01-01T00:01:43+00:00" in csv.text.replace("\r", "")
    assert 'filename="deep-usage.csv"' in csv.headers["Content-Disposition"]


async def test_gpus_that_slurm_cannot_reserve_are_said_before_the_term(site: Site) -> None:
    """Slurm answers "Invalid Trackable RESource" days ahead of a meeting: too late."""
    said: list[str | Exception] = [
        "Slurm does not track 'gres/gpu:v100'.", "", SlurmUnavailable("It is away.")
    ]  # fmt: skip
    asked: list[str] = []

    async def untracked(gpu_type: str) -> str:
        asked.append(gpu_type)
        answer = said.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    site.parts.parts_for(CourseParts).readiness.reserving.untracked = untracked  # type: ignore[method-assign]
    await site.approved(reservation={"gpus": 4})
    point = (await points_of(site))["reservable"]
    assert (point["sign"], "does not track" in point["message"]) == ("bad", True)
    point = (await points_of(site))["reservable"]
    assert (point["sign"], "v100 GPUs, with all cores" in point["message"]) == ("good", True)
    assert (await points_of(site))["reservable"]["sign"] == "unknown"
    assert asked == ["v100"] * 3
