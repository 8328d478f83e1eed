"""Reservations of courses' meetings, on the demo's Slurm and as the portal's own account (an
Operator), with Slurm's own answers."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from conftest import demo_place
from machine import patience

from portal.courses.definition.calendar import Meeting
from portal.courses.schedule.plan import reservation_name
from portal.errors import InvalidRequest
from portal.slurm.control.reservations import DesiredReservation
from portal.slurm.parse import reservations as parsed

# Runs in the demo as the portal's account, with a database in the file that it is told.
DRIVER = """
import asyncio, json, logging, sys, time
from types import SimpleNamespace
from portal.courses.context import CourseContext
from portal.spaces.membership_cache import MembershipCache
from portal.courses.schedule.reservations import Reservations
from portal.courses.settings import Courses
from portal.errors import NotFound
from portal.models.course.course import Course, CourseMember, StoredCourse
from portal.models.space import SpaceState
from portal.slurm import Cluster, SlurmRunner
from portal.slurm.control.control import ClusterControl
from portal.slurm.control.reservations import ReservationControl
from portal.store import Store

async def main():
    for line in iter(sys.stdin.readline, ""):
        print(json.dumps(await answer(json.loads(line))), flush=True)

async def answer(words):
    store, runner = Store(url=words["store"]), SlurmRunner()
    await store.upgrade()
    notes = []
    async def note(entry):
        notes.append([entry.action, str(entry.outcome), entry.detail])
    cluster = Cluster(runner=runner)
    context = CourseContext(
        store=store, hub=None,
        memberships=MembershipCache(store.spaces.get, store.members.of_person),
        settings=Courses(**words["settings"]),
        cluster=cluster, control=ClusterControl(runner=runner),
        reserving=ReservationControl(runner),
        view=lambda: SimpleNamespace(snapshot=snapshot, sessions={}), note=note,
        log=logging.getLogger("test"), wall=time.time,
    )
    for one in words["courses"]:
        course = Course.model_validate(one["course"])
        kept = StoredCourse(course=course, state=one.get("state", "approved"), created_by="barbara",
                          created_at=0, changed_at=0)
        try:
            there = await store.courses.get(kept.name)
            kept = await store.courses.save(kept.model_copy(update={"number": there.number}))
        except NotFound:
            await store.courses.add_space(kept)
        members = [CourseMember(course=kept.name, person=name, role="student")
                   for name in one["people"]]
        there = await store.members.of_space(kept.name)
        await store.members.remove(kept.name, [m.person for m in there])
        await store.members.put(members)
    work = Reservations(context)
    now = words.get("now") or time.time()
    await work.run_due(now)
    snapshot = await cluster.snapshot(time.time(), fresh_reservations=True)
    shown = []
    for one in words["courses"]:
        kept = await store.courses.get(one["course"]["name"])
        shown.append([m.model_dump(mode="json") for m in await work.shown(kept, now)])
    rows = [row.model_dump(mode="json") for row in await store.reservations.all()]
    await store.close()
    return {"shown": shown, "notes": notes, "rows": rows}

asyncio.run(main())
"""


class Place:
    """The demo's Slurm, and a database for the loop."""

    def __init__(self, demo: Any, driver: subprocess.Popen[str], folder: Path) -> None:
        self.demo, self.driver = demo, driver
        self.url = f"sqlite:///{folder}/portal.sqlite"

    def run_round(self, *courses: dict[str, Any], now: float | None = None) -> dict[str, Any]:
        """One look of a service that has just begun, with these courses."""
        words = {
            "store": self.url,
            "courses": courses,
            "settings": {"days_ahead": 10, "lead_minutes": 20},
            "now": now,
        }
        assert self.driver.stdin is not None
        assert self.driver.stdout is not None
        self.driver.stdin.write(json.dumps(words) + "\n")
        self.driver.stdin.flush()
        return dict(json.loads(self.driver.stdout.readline()))

    def held(self, course: str) -> dict[str, Any]:
        """What Slurm has of a course."""
        said = self.scontrol("--oneliner", "show", "reservation").stdout
        found = parsed(said)
        return {name: one for name, one in found.items() if name.startswith(f"course-{course}-")}

    def scontrol(self, *words: str, check: bool = True) -> Any:
        return self.demo.run(
            ["scontrol", *words],
            user=self.demo.user("portal"),
            env={"TZ": "UTC", "SLURM_TIME_FORMAT": "%s"},
            check=check,
        )


@pytest.fixture(scope="module")
def driver(slurm_cluster: Any) -> Iterator[subprocess.Popen[str]]:
    """A process of the portal's account in the demo; each line that it reads is one look."""
    if not slurm_cluster.people:
        pytest.skip("in the one-account form there are no students")
    argv = slurm_cluster.command(
        [sys.executable, "-c", DRIVER],
        user=slurm_cluster.user("portal"),
        env={"PYTHONPATH": str(demo_place())},
    )
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/"
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture
def place(slurm_cluster: Any, driver: subprocess.Popen[str]) -> Iterator[Place]:
    folder = Path(slurm_cluster.run(["mktemp", "-d", "/var/tmp/pt-XXXXXX"]).stdout.strip())
    slurm_cluster.run(["chmod", "777", str(folder)])
    made = Place(slurm_cluster, driver, folder)
    yield made
    for name in made.held("resv") | made.held("other"):
        made.scontrol("delete", f"ReservationName={name}", check=False)
    slurm_cluster.run(["rm", "-r", str(folder)])


def course(name: str = "resv", *, days: float = 2, people: int = 3, **more: Any) -> dict[str, Any]:
    """A course with one meeting, so many days from now, at 10:00 UTC for an hour."""
    day = datetime.now(UTC).date() + timedelta(days=int(days))
    values = {
        "name": name,
        "title": "Deep Learning",
        "environment": "lab",
        "begins": str(date.today() - timedelta(days=5)),
        "ends": str(date.today() + timedelta(days=60)),
        "single": [{"date": str(day), "begins": "10:00", "minutes": 60}],
        "reservation": {"nodes": 1, "partition": "gpu"},
        **more,
    }
    names = [f"student{n:02}" for n in range(1, people + 1)]
    return {"course": values, "people": [*names, "barbara"]}


def begins(one: dict[str, Any]) -> float:
    day = date.fromisoformat(one["course"]["single"][0]["date"])
    return datetime(day.year, day.month, day.day, 10, tzinfo=UTC).timestamp()


def test_a_meeting_has_its_nodes_from_days_ahead_until_its_end(place: Place) -> None:
    one = course()
    at = begins(one)
    told = place.run_round(one)
    name = reservation_name("resv", at)
    assert name == f"course-resv-{datetime.fromtimestamp(at, UTC):%Y%m%d}T1000"
    held = place.held("resv")[name]
    assert (held.start_time, held.end_time) == (at - 20 * 60, at + 3600)
    assert set(held.users) == {"student01", "student02", "student03", "barbara"}
    assert (len(held.nodes), held.partition) == (1, "gpu")
    assert [entry[:2] for entry in told["notes"]] == [["make-reservation", "done"]]
    (shown,) = told["shown"][0]
    assert (shown["state"], shown["message"]) == ("made", "")
    assert shown["nodes"] == list(held.nodes)

    # The next service finds it made, and asks nothing.
    assert place.run_round(one)["notes"] == []
    # The roster and the nodes change: the reservation, too, and not its name.
    more = course(people=5, reservation={"nodes": 2, "partition": "gpu"})
    place.run_round(more)
    held = place.held("resv")[name]
    assert len(held.users) == 6
    assert len(held.nodes) == 2
    # The meeting moves: the old one is gone.
    moved = course(days=3)
    place.run_round(moved)
    assert set(place.held("resv")) == {reservation_name("resv", begins(moved))}
    # The course is archived: nothing is left, in Slurm and in the database.
    told = place.run_round({**moved, "state": "archived"})
    assert place.held("resv") == {}
    assert told["rows"] == []
    assert told["notes"][0][:2] == ["remove-reservation", "done"]


def test_what_others_reserved_is_never_touched(place: Place) -> None:
    one = course()
    name = reservation_name("resv", begins(one))
    place.scontrol(
        *("create", "reservation", f"ReservationName={name}", "StartTime=now+30minutes"),
        *("Duration=10", "Users=ada", "NodeCnt=1", "PartitionName=cpu"),
    )
    before = place.held("resv")[name]
    told = place.run_round(one)
    assert "did not create" in told["shown"][0][0]["message"]
    assert told["shown"][0][0]["state"] == "refused"
    assert [entry[:2] for entry in told["notes"]] == [["make-reservation", "failed"]]
    assert place.run_round(one)["notes"] == []  # said once
    place.run_round({**one, "state": "archived"})
    assert place.held("resv")[name] == before


def test_what_somebody_removed_by_hand_is_not_made_again_until_the_course_changes(
    place: Place,
) -> None:
    one = course()
    name = reservation_name("resv", begins(one))
    place.run_round(one)
    place.scontrol("delete", f"ReservationName={name}")
    assert "The reservation was removed" in place.run_round(one)["shown"][0][0]["message"]
    later = time.time() + 3600
    assert (
        "The reservation was removed" in place.run_round(one, now=later)["shown"][0][0]["message"]
    )
    assert place.held("resv") == {}
    assert place.run_round(course(people=4))["shown"][0][0]["state"] == "made"
    assert set(place.held("resv")) == {name}


def test_a_refusal_is_told_in_words_days_ahead_and_tried_again(place: Place) -> None:
    wrong = course(reservation={"nodes": 1, "partition": "nowhere"})
    (shown,) = place.run_round(wrong)["shown"][0]
    assert shown["state"] == "refused"
    assert "Invalid partition name" in shown["message"]
    right = course()
    assert place.run_round(right)["shown"][0][0]["state"] == "made"


def test_gpus_are_reserved_where_this_slurm_can_and_else_the_page_says_so(place: Place) -> None:
    version = slurm_version(place)
    if not version.startswith("22."):
        reserves_gpus(place)
        return
    (shown,) = place.run_round(course(reservation={"gpus": 2, "partition": "gpu"}))["shown"][0]
    assert shown["state"] == "refused"
    assert f"This Slurm ({version}) reserves whole nodes" in shown["message"]
    both = course(reservation={"nodes": 1, "gpus": 2, "partition": "gpu"})
    (shown,) = place.run_round(both)["shown"][0]
    assert shown["state"] == "made"
    assert shown["message"].startswith("Only nodes are reserved.")


def slurm_version(place: Place) -> str:
    return str(place.demo.run(["scontrol", "--version"]).stdout.split()[-1])


def reserves_gpus(place: Place) -> None:
    """Of the type that the sessions want, in another number where the course changes, and whole
    nodes of a mixed partition (24.11 and 26.05)."""

    def look(kind: str, **reservation: Any) -> tuple[dict[str, Any], Any]:
        each = {"gpus": 1, "gpu_type": kind}
        reserved = {"partition": "gpu", **reservation}
        told = place.run_round(course(reservation=reserved, default=each, largest=each))
        (held,) = place.held("resv").values()
        return told["shown"][0][0], held

    for kind, count in (("t4", 3), ("v100", 3), ("v100", 9), ("v100", 2)):
        shown, held = look(kind, gpus=count)
        assert (shown["state"], shown["message"]) == ("made", "")
        assert (held.gpus, held.gpu_type) == (count, kind)
    for kind, nodes in (("t4", {"gpu05", "gpu06"}), ("v100", {"gpu01", "gpu02", "gpu03", "gpu04"})):
        shown, held = look(kind, nodes=2)
        assert (shown["state"], shown["message"], len(held.nodes)) == ("made", "", 2)
        assert set(held.nodes) <= nodes
    # What there is not is refused, and what was held stays.
    shown, held = look("v100", gpus=99)
    assert shown["message"].startswith("The reservation could not be changed")
    assert (held.gpus, held.gpu_type) == (8, "v100")


def test_more_nodes_than_there_are(place: Place) -> None:
    """22.05 makes a smaller reservation and says nothing; 24.11 and 26.05 refuse."""
    (shown,) = place.run_round(course(reservation={"nodes": 99, "partition": "cpu"}))["shown"][0]
    if not slurm_version(place).startswith("22."):
        assert shown["state"] == "refused"
        assert shown["message"].startswith("Not enough nodes are free at that time")
        return
    assert shown["state"] == "made"
    assert "of 99 nodes" in shown["message"]
    assert 0 < len(shown["nodes"]) < 99


def test_one_stranger_does_not_spoil_it_for_the_course(place: Place) -> None:
    one = course(account="dl101")
    one["people"] += ["nobody-here", "ada"]  # no account; may not charge dl101
    (shown,) = place.run_round(one)["shown"][0]
    assert shown["state"] == "made"
    assert "Not included, no account on the cluster: nobody-here." in shown["message"]
    assert "Not included, no access to the Slurm account 'dl101': ada." in shown["message"]
    (held,) = place.held("resv").values()
    assert set(held.users) == {"student01", "student02", "student03", "barbara"}
    assert held.accounts == ("dl101",)


def test_meetings_of_two_courses_at_the_same_time_have_nodes_of_their_own(place: Place) -> None:
    first = course()
    second = course("other", reservation={"nodes": 2, "partition": "cpu"})
    third = course(reservation={"nodes": 1, "partition": "cpu"})
    place.run_round(first, second)
    ours, others = place.held("resv"), place.held("other")
    assert len(ours) == len(others) == 1
    # All nodes of the partition are another's at that time: refused, in words.
    shown, _ = place.run_round(third, second)["shown"]
    assert shown[0]["state"] == "refused"
    assert shown[0]["message"].startswith("Not enough nodes are free at that time")
    assert place.held("resv") == {}
    assert place.held("other") == others


def test_a_meeting_that_follows_another_waits_for_its_end(place: Place) -> None:
    one = course()
    day = one["course"]["single"][0]["date"]
    one["course"]["single"].append({"date": day, "begins": "11:00", "minutes": 60})
    first, second = place.run_round(one)["shown"][0]
    assert (first["reserved_from"], second["reserved_from"]) == (
        first["begins"] - 20 * 60,
        first["ends"],
    )
    assert len(place.held("resv")) == 2


def soon() -> dict[str, Any]:
    """A course whose meeting begins in three minutes: its reservation is on."""
    at = datetime.now(UTC) + timedelta(minutes=3)
    one = course(days=0)
    one["course"]["single"] = [{"date": str(at.date()), "begins": f"{at:%H:%M}", "minutes": 30}]
    return one


def test_what_still_waits_at_its_end_goes_on_outside_of_it(place: Place) -> None:
    """As the points of a run. Slurm would hold it."""
    place.run_round(soon())
    (name,) = place.held("resv")
    demo, who = place.demo, place.demo.user("student01")
    words = [f"--reservation={name}", "--partition=gpu", "--begin=now+1hour", "--wrap=true"]
    job = demo.run(["sbatch", "--parsable", *words], user=who).stdout.strip()
    try:
        place.scontrol("update", f"ReservationName={name}", "EndTime=now+5")
        end = time.monotonic() + patience(120)
        while place.held("resv"):
            assert time.monotonic() < end
            time.sleep(1)
        reason, priority = demo.run(["squeue", "-h", "-j", job, "-o", "%r %Q"]).stdout.split()
        assert reason == "BeginTime" and int(priority) > 0
    finally:
        demo.run(["scancel", job], user=who)


def test_sessions_in_it_put_its_removal_off(place: Place) -> None:
    one = soon()
    told = place.run_round(one)
    (name,) = place.held("resv")
    assert told["shown"][0][0]["state"] == "made"
    demo = place.demo
    job = demo.run(
        ["sbatch", "--parsable", f"--reservation={name}", "--partition=gpu", "--wrap=sleep 120"],
        user=demo.user("student01"),
    ).stdout.strip()
    try:
        end = time.monotonic() + patience(60)
        while "RUNNING" not in demo.run(["squeue", "-h", "-j", job, "-o", "%T"]).stdout:
            assert time.monotonic() < end
            time.sleep(0.2)
        told = place.run_round({**one, "state": "archived"})
        assert [row["name"] for row in told["rows"]] == [name]
    finally:
        demo.run(["scancel", job], user=demo.user("student01"))
    end = time.monotonic() + patience(60)
    while place.run_round({**one, "state": "archived"})["rows"]:
        assert time.monotonic() < end
    assert place.held("resv") == {}


# -- without Slurm ----------------------------------------------------------------------------


def test_what_scontrol_would_misread_is_refused() -> None:
    fine = DesiredReservation(
        "course-deep-20270118T0900", 0, 60, ("ada", "x.y@example.org"), nodes=1
    )
    assert "Users=ada,x.y@example.org" in fine.words()
    assert not any(word.startswith("StartTime") for word in fine.words(began=True))
    for user in ("-ada", "+ada", "a,b", "a b", "", "a=b"):
        with pytest.raises(InvalidRequest):
            DesiredReservation("course-deep-20270118T0900", 0, 60, (user,), nodes=1).words()
    for name in ("maintenance", "course-deep-20270118T0900 Flags=X", "ALL", ""):
        with pytest.raises(InvalidRequest):
            DesiredReservation(name, 0, 60, ("ada",), nodes=1).words()


def test_the_name_says_utc() -> None:
    winter = datetime(2027, 3, 22, 8, tzinfo=UTC).timestamp()
    summer = datetime(2027, 3, 29, 7, tzinfo=UTC).timestamp()
    names = [
        reservation_name("deep", one.begins) for one in (Meeting(winter, 0), Meeting(summer, 0))
    ]
    assert names == ["course-deep-20270322T0800", "course-deep-20270329T0700"]
