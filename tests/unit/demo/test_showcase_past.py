"""The past that a demo begins with: what is in it, how it is labelled, and that it goes away."""

from __future__ import annotations

import datetime
import time

import pytest
from session_records import recorded
from stored_courses import a_course, stored

from portal.demo.benchmarks import ENVIRONMENT, USER, finished_benchmarks
from portal.demo.course import NAME
from portal.demo.run import finished_run
from portal.demo.showcase.__main__ import remove, write_past
from portal.demo.showcase.course_past import BY, course_past
from portal.demo.showcase.past import EXAMPLES, HOURS, PREFIX, WEEKS, past
from portal.errors import NotFound
from portal.models.cluster.history import ClusterSample, SeriesKind
from portal.models.course.course import CourseMember
from portal.models.course.start import OVER, SeatState
from portal.models.session.run import PointState
from portal.models.session.session import SessionState
from portal.models.session.usage import JobUsage
from portal.models.space import Role, SpaceState
from portal.store import Store
from portal.work.benchmarks.results import SCRIPTS, BenchmarkResult
from portal.work.benchmarks.tables import BenchmarkResultTable, BenchmarkRun, BenchmarkRunTable
from portal.work.run.follower import is_of
from portal.work.run.tables.curves import RunCurveTable
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.runs import RunTable

NOW = time.time()
STUDENTS = [f"student{number:02}" for number in range(1, 31)]
MADE = past(NOW)
CLASS = course_past(NAME, "dl101", STUDENTS, NOW - 86400)
SWEEP = finished_run(NOW)
SESSIONS = [*MADE.sessions, *CLASS.sessions, *SWEEP.sessions]


async def site(store: Store, *, begins_ago: int = 8) -> None:
    today = datetime.date.today()
    course = a_course(
        NAME,
        title="Deep Learning 101",
        environment="jupyterlab",
        account="dl101",
        timezone="Europe/Berlin",
        begins=today - datetime.timedelta(days=begins_ago),
        ends=today + datetime.timedelta(days=90),
        weekly=[{"day": day, "begins": "10:00", "minutes": 90} for day in (1, 3)],
    )
    kept = stored(course, state=SpaceState.DRAFT)
    members = [
        CourseMember(
            course=NAME,
            person=name,
            role=Role.STUDENT,
            source="list",
            added_by="barbara",
            added_at=1.0,
        )
        for name in STUDENTS
    ]
    await store.courses.add_space(kept, members)


def test_every_session_has_ended_and_says_that_it_is_an_example() -> None:
    for session in SESSIONS:
        assert session.id == session.job_id and session.job_id.startswith(PREFIX)
        assert session.account.endswith("(example)")
        assert session.state is SessionState.ENDED
        assert session.ending_code and (session.ending_message or session.stopped_by)
        assert session.submitted_at < (session.ended_at or 0) < NOW
    assert len({session.id for session in SESSIONS}) == len(SESSIONS)


def test_the_endings_differ() -> None:
    own = [session for session in SESSIONS if not session.space]
    assert {session.ending_code for session in own} >= {
        *("walltime", "out_of_memory", "stopped", "node_failure", "completed", "idle"),
        "start_failed",
    }
    assert {session.user for session in own} == {"ada", "barbara", "grace"}


def test_gpu_time_is_that_of_the_sessions() -> None:
    held: dict[str, float] = {}
    for usage in [*MADE.usage, *CLASS.usage]:
        assert 0 <= usage.used <= usage.measured <= usage.held
        held[usage.job_id] = held.get(usage.job_id, 0) + usage.held
    for number, example in enumerate(EXAMPLES, 1):
        expected = example.gpus * example.hours * 3600
        assert held.get(f"{PREFIX}{number}", 0) == pytest.approx(expected)


def test_the_history_has_a_sample_a_minute_within_the_clusters_size() -> None:
    recent = [one for one in MADE.history if one.at >= NOW - HOURS * 3600]
    assert len(recent) == HOURS * 60
    assert all(0 <= one.gpus_allocated <= one.gpus_total for one in MADE.history)
    assert MADE.history[-1].at < NOW
    assert len({one.gpus_allocated for one in recent}) > 5  # a curve, no line


def test_twelve_weeks_of_gpu_time_and_history_are_there() -> None:
    days = {usage.day for usage in MADE.usage}
    assert len(days) > 0.7 * WEEKS * 7
    weeks = [int((NOW - one.at) // (7 * 86400)) for one in MADE.history]
    assert {week: weeks.count(week) >= 7 * 24 - HOURS for week in range(WEEKS)} == dict.fromkeys(
        range(WEEKS), True
    )
    assert {usage.user for usage in MADE.usage} == {"ada", "barbara", "grace"}
    assert all(usage.job_id.startswith(PREFIX) for usage in MADE.usage)


def test_the_history_has_the_quantities_of_each_plot() -> None:
    series = [quantity for one in MADE.history for quantity in one.series]
    assert {quantity.kind for quantity in series} == set(SeriesKind)
    shares = [one.total for one in series if one.kind in (SeriesKind.HELD, SeriesKind.USED)]
    assert all(0 <= share <= 100 for share in shares)


def test_all_seats_of_the_meeting_are_over() -> None:
    states = [seat.state for seat in CLASS.seats]
    assert len(states) == 30 and set(states) <= OVER
    assert states.count(SeatState.FAILED) == 1 and states.count(SeatState.RELEASED) == 1
    ready = {seat.person for seat in CLASS.seats if seat.ready_at}
    assert {session.user for session in SESSIONS if session.space} == ready


def test_a_search_is_there_with_curves_and_a_point_that_failed() -> None:
    states = [point.state for point in SWEEP.points]
    assert states.count(PointState.FAILED) == 1 and set(states) == {
        *(PointState.FAILED, PointState.SUCCEEDED)
    }
    assert len(SWEEP.curves) == SWEEP.run.points == len(SWEEP.points)
    assert is_of(SWEEP.sessions[0], SWEEP.run)  # its page says how it ended
    best = max(SWEEP.points, key=lambda point: point.metrics["accuracy"])
    assert 0.001 < float(str(best.parameters["learning_rate"])) < 0.1  # within the search
    assert best.state is PointState.SUCCEEDED and max(
        value for _, value in SWEEP.curves[best.number]["accuracy"]
    ) == pytest.approx(best.metrics["accuracy"], abs=0.05)


def test_benchmarks_compare_versions_and_gpus_and_one_fell() -> None:
    """As if the collector had taken them; nobody could take them for measured."""
    runs = finished_benchmarks(NOW).runs
    results = [result for _, taken in runs for result in taken]
    assert {result.version for result in results} == {1, 2}
    assert {result.gpu_type for result in results} == {"v100", "t4", ""}
    assert {result.benchmark for result in results} <= set(SCRIPTS)
    assert all(result.simulated and USER.endswith("(example)") for result in results)
    for first, second in zip(*(taken for _, taken in runs), strict=True):
        assert first.key == second.key and second.before == first.value
    (fallen,) = [result for result in results if result.fall]
    assert fallen.fall == pytest.approx(0.10)
    assert [len(run.falls) for run, _ in runs] == [0, 1]
    assert not any(run.renew for run, _ in runs)


async def test_it_is_written_once_and_removed_whole_and_nothing_else_is(store: Store) -> None:
    await site(store)
    real = recorded(id="real", user="ada", submitted_at=NOW, state=SessionState.ENDED)
    await store.sessions.save(real)
    await store.usage.add_seconds(
        [JobUsage(job_id="7", submitted_at=int(NOW), day="2026-11-21", user="ada", held=60)]
    )
    await write_past(store, NOW)
    own = BenchmarkRun(
        user="grace", run="r1", name="own", environment=ENVIRONMENT, added_at=NOW, taken_at=NOW
    )
    about = finished_benchmarks(NOW).runs[0][1][0].model_dump()
    kept = BenchmarkResult(**{**about, "user": "grace", "run": "r1", "version": 3})
    await store.table(BenchmarkRunTable).add_run(own)
    await store.table(BenchmarkRunTable).take(own, [kept], taken_at=NOW)
    await store.history.add_samples(ClusterSample(at=NOW + 60, gpus_total=20))
    _, total = await store.sessions.find(limit=100)
    assert total == len(SESSIONS) + 1
    (start,) = await store.starts.of_course(NAME)
    assert (
        start.by == BY
        and start.ended_at is not None
        and len(await store.starts.seats(start.id)) == 30
    )
    assert not await store.starts.live()
    (swept,), _ = await store.table(RunTable).of_user("ada")
    assert await store.table(RunCurveTable).numbers("ada", swept.id) == set(range(swept.points))
    jobs = await store.table(RunPointTable).jobs("ada", swept.id, 100)
    assert len(await store.job_use.of_jobs(jobs, swept.created_at, NOW)) == swept.points
    measured, benchmarks = store.table(BenchmarkResultTable), store.table(BenchmarkRunTable)
    assert (await measured.find({ENVIRONMENT}, wanted={}))[1] == 23
    assert await benchmarks.untaken() == [] and await benchmarks.untold() == []  # no mail
    points = await store.history.points(NOW - 3600, NOW, 100)
    assert sum(point.gpus_total == 20 for point in points) >= 58
    assert len((await store.series.nodes(NOW))[1]) == 8
    (use,) = await store.job_use.of_job(f"{PREFIX}1", 0, NOW)
    assert use.sources == "simulated" and len(use.gpu) == len(use.memory) == 60

    await remove(store, NOW)
    assert [session.id for session in (await store.sessions.find())[0]] == ["real"]
    assert (await store.table(RunTable).of_user("ada"))[1] == 0
    assert await measured.find({ENVIRONMENT}, wanted={}) == ([kept], 1)
    assert [run.user for run in await benchmarks.newest()] == ["grace"]
    assert not await store.table(RunCurveTable).numbers("ada", swept.id)
    assert not await store.job_use.of_jobs(jobs, swept.created_at, NOW)
    assert await store.starts.of_course(NAME) == [] and await store.starts.seats(start.id) == []
    assert {row[0] for row in await store.usage.accounted_until()} == set()
    rows = await store.usage.totals(by="user", period="month", start=0, end=NOW + 1)
    assert [(row.key, row.jobs) for row in rows] == [("ada", 1)]
    points = await store.history.points(NOW - HOURS * 3600, NOW + 120, 1000)
    assert sum(point.gpus_total is not None for point in points) == 1
    assert (await store.series.nodes(NOW))[1] == {}
    assert await store.job_use.of_job(f"{PREFIX}1", 0, NOW) == []


async def test_without_a_meeting_in_the_past_nothing_is_written(store: Store) -> None:
    await site(store, begins_ago=-1)
    with pytest.raises(NotFound, match="no meeting"):
        await write_past(store, NOW)
    assert (await store.sessions.find())[1] == 0
