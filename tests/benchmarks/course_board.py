"""The live board of a course of three hundred, in a real browser on a synthetic cluster: time until
it is complete, and load on Slurm with many viewers."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import statistics
import threading
import time
from collections.abc import Iterator
from typing import Any

from portal.models.course.course import Course, CourseMember, StoredCourse
from portal.models.course.live import Presence
from portal.models.session.session import SessionRecord, SessionState
from portal.models.space import Role, SpaceState
from portal.slurm import parse
from portal.store import Store

from .cluster import NotMeasured
from .page import PROGRAM, opened
from .report import Row
from .synthetic_service import Service, synthetic_service

NUMBER, WATCHERS, VISITS = 300, 50, 5
NAME, TEACHER = "bench", "grace"
WHAT = f"The live board of a course, {NUMBER} students"
_WATCHED = 20.0  # seconds
_MARKS = """() => ({
  paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime,
  full: document.querySelectorAll("#tiles .seat .seat-head").length,
  at: performance.now(),
})"""


def measure() -> list[Row]:
    """Return the rows; takes a minute and a half."""
    if not PROGRAM:
        raise NotMeasured("no chromium on this machine")
    with synthetic_service(100, 1000, interval=2.0) as service:
        asyncio.run(_course(service))
        visits = [_visit(service) for _ in range(VISITS)]
        alone = _asked(service, 1)
        many = _asked(service, WATCHERS)
    paint, full = (statistics.median(visit[index] for visit in visits) for index in (0, 1))
    print(f"  first paint, all tiles: {visits} ms; commands of Slurm: {alone}, {many}")
    return [
        Row(f"{WHAT}: first paint", paint, "ms", goal="under 1000", met=paint < 1000),
        Row(f"{WHAT}: all tiles complete", full, "ms"),
        Row(
            f"{WHAT}: requests to Slurm in {_WATCHED:.0f} s with {WATCHERS} viewers",
            many,
            "",
            "with one viewer",
            alone,
            goal="as with one",
            met=many <= 1.1 * alone + 1,
        ),
    ]


async def _course(service: Service) -> None:
    """Write the course and a session per person, as Hub and service would have."""
    now, today = time.time(), datetime.date.today()
    jobs = parse.jobs(service.squeue.read_text(), "\x1fSEPARATOR").values()
    running = [job for job in jobs if not job.state.pending and job.start_time][:NUMBER]
    people = [f"learner{number:03}" for number in range(NUMBER)]
    course = Course(
        name=NAME,
        title="A class",
        environment="stub",
        begins=today - datetime.timedelta(days=1),
        ends=today + datetime.timedelta(days=1),
    )
    times = dict.fromkeys(("created_at", "changed_at"), now)
    kept = StoredCourse(course=course, state=SpaceState.APPROVED, created_by=TEACHER, **times)
    members = [CourseMember(course=NAME, person=TEACHER, role=Role.INSTRUCTOR)]
    members += [CourseMember(course=NAME, person=student, role=Role.STUDENT) for student in people]
    store = Store(url=service.database)
    await store.courses.add_space(kept, members)
    for person, job in zip(people, running, strict=False):
        record = SessionRecord(
            id=f"class-{person}",
            user=person,
            server=course.server,
            account=person,
            environment="stub",
            space=NAME,
            job_id=job.id,
            state=SessionState.RUNNING,
            submitted_at=job.submit_time or 0,
            started_at=job.start_time,
            ready_at=job.start_time,
            nodes=job.nodes,
        )
        await store.sessions.save(record)
        moments = dict.fromkeys(("seen_at", "opened_at", "last_activity"), now)
        whose = {"course": NAME, "person": person, "session_id": record.id}
        seen = Presence(**whose, **moments, notebooks=("lesson/1-gradients.ipynb",))
        await store.presence.save_report(seen)
    await store.close()


def _visit(service: Service) -> tuple[float, float]:
    """Return the milliseconds from the navigation to the first paint and to the last full tile."""
    with opened(f"{service.url}courses/{NAME}/board") as page:
        for _ in range(300):
            marks: dict[str, Any] = page.evaluate(_MARKS)
            if marks["paint"] and marks["full"] == NUMBER:
                break
            page.wait_for_timeout(20)
        else:
            raise NotMeasured(f"{marks['full']} of {NUMBER} tiles have words")
    return marks["paint"], marks["at"]


def _asked(service: Service, watchers: int) -> int:
    """Count the commands of Slurm that are run while so many people watch."""
    with _watching(service, watchers):
        before = service.asked
        time.sleep(_WATCHED)
        return service.asked - before


@contextlib.contextmanager
def _watching(service: Service, number: int) -> Iterator[None]:
    """Poll the board every three seconds, as ``number`` viewers."""
    enough = threading.Event()

    def watch() -> None:
        while not enough.is_set():
            service.get(f"api/v1/courses/{NAME}/board")
            enough.wait(3)

    threads = [threading.Thread(target=watch, daemon=True) for _ in range(number)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        enough.set()
        for thread in threads:
            thread.join(30)
