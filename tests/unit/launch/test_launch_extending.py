"""How much longer a session may go on: every limit that a launch has, and the clock's."""

from __future__ import annotations

from typing import Any

import pytest
from traitlets import TraitError
from traitlets.config import Config

from portal.errors import Conflict, InvalidRequest, NotAllowed
from portal.launch.extending import Extending, Running, extended, offer
from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import (
    Association,
    ClusterSnapshot,
    Job,
    JobState,
    Partition,
    Qos,
    Reservation,
)
from portal.models.words import clock

NOW = 1_800_000_000.0
START, END = NOW - 1800, NOW + 1800
HOUR = 3600
SETTINGS = Extending()


def environment(max_time: str | None = "8:00:00") -> Environment:
    return Environment(name="torch", title="PyTorch", kind="venv", path="/x", max_time=max_time)


def job(**more: Any) -> Job:
    values = {
        "state": JobState.RUNNING,
        "account": "lab",
        "partition": "gpu",
        "qos": "normal",
        "nodes": ("gpu01", "gpu02"),
        "start_time": START,
        "end_time": END,
        "time_limit": HOUR,
        **more,
    }
    return Job(id="10", user="ada", **values)


def reservation(name: str, start: float, end: float, **more: Any) -> Reservation:
    values = {"nodes": ("gpu02", "gpu03"), **more}
    return Reservation(name=name, start_time=start, end_time=end, **values)


def running(
    *reservations: Reservation,
    environment: Environment | None = environment(),  # noqa: B008
    partition: dict[str, Any] | None = None,
    qos: dict[str, Qos] | None = None,
    associations: tuple[Association, ...] | None = None,
    asked: int | None = HOUR,
    **of_job: Any,
) -> Running:
    snapshot = ClusterSnapshot(
        taken_at=NOW,
        partitions={"gpu": Partition(name="gpu", **(partition or {}))},
        reservations={one.name: one for one in reservations},
        qos=qos or {},
    )
    return Running(job(**of_job), environment, snapshot, associations, asked)


def association(**more: Any) -> Association:
    return Association(user="ada", account="lab", is_default_account=True, **more)


# -- within all limits ----------------------------------------------------------------------------


def test_the_new_limit_counts_from_the_start_and_never_shortens() -> None:
    assert extended(running(), 30, SETTINGS, NOW) == HOUR + 1800
    assert extended(running(time_limit=7200, end_time=NOW + 5400), 1, SETTINGS, NOW) == 7260


def test_a_session_that_was_suspended_has_its_time_left_all_the_same() -> None:
    # Slurm adds the time in suspension to the end, and not to the limit.
    late = running(end_time=END + 600, state=JobState.SUSPENDED)
    assert extended(late, 30, SETTINGS, NOW) == HOUR + 1800
    found = offer(late, SETTINGS, NOW)
    assert found.latest_end == END + 600 + 7 * HOUR


def test_a_session_beyond_its_end_gets_its_minutes_from_now_on() -> None:
    over = running(end_time=NOW - 300)  # slurm.conf(5) OverTimeLimit
    assert extended(over, 30, SETTINGS, NOW) == HOUR + 300 + 1800
    assert extended(running(end_time=NOW - 301), 30, SETTINGS, NOW) == HOUR + 360 + 1800


def test_the_offer_is_what_fits() -> None:
    found = offer(running(), SETTINGS, NOW)
    assert (found.allowed, found.minutes, found.reason) == (True, (30, 60, 120), "")
    assert found.latest_end == START + 8 * HOUR
    found = offer(running(environment=environment("2:15:00")), SETTINGS, NOW)
    assert (found.minutes, found.latest_end) == ((30, 60), START + 2.25 * HOUR)
    # Less than the smallest step is offered as it is.
    found = offer(running(environment=environment("1:20:30")), SETTINGS, NOW)
    assert (found.allowed, found.minutes) == (True, (20,))


def test_without_any_limit_there_is_no_latest_end() -> None:
    found = offer(running(environment=environment(None)), SETTINGS, NOW)
    assert (found.allowed, found.latest_end) == (True, None)


# -- each limit -----------------------------------------------------------------------------------

LIMITS: dict[str, tuple[Running, float, str]] = {
    "environment": (
        running(environment=environment("1:40:00")),
        START + 6000,
        "'PyTorch' allows a time limit of at most 1 h 40 min",
    ),
    "partition": (
        running(partition={"max_time": 6000}),
        START + 6000,
        "the partition 'gpu' allows a time limit of at most 1 h 40 min",
    ),
    "qos": (
        running(qos={"normal": Qos(name="normal", max_wall=6000)}, associations=(association(),)),
        START + 6000,
        "the QOS 'normal' allows a time limit of at most 1 h 40 min",
    ),
    "partition's qos": (
        running(
            partition={"qos": "short"},
            qos={
                "normal": Qos(name="normal", max_wall=99999),
                "short": Qos(name="short", max_wall=6000),
            },
            associations=(association(),),
        ),
        START + 6000,
        "the QOS 'short' allows a time limit of at most 1 h 40 min",
    ),
    "account": (
        running(associations=(association(max_wall=6000),)),
        START + 6000,
        "your account allows a time limit of at most 1 h 40 min",
    ),
    "the next reservation of a node": (
        running(
            reservation("maintenance", END + 2400, END + 9999),
            reservation("elsewhere", END + 60, END + 9999, nodes=("gpu09",)),
            reservation("past", START - 99, NOW - 1),
            reservation("later", END + 5000, END + 9999),
        ),
        END + 2400,
        "the reservation 'maintenance' needs the session's node then",
    ),
    "its own reservation": (
        running(reservation("course", START - 60, END + 2400), reservation="course"),
        END + 2400,
        "its reservation 'course' ends then",
    ),
}


@pytest.mark.parametrize("name", LIMITS)
def test_beyond_a_limit_the_sentence_names_it_and_the_latest_end(name: str) -> None:
    this, latest, words = LIMITS[name]
    assert offer(this, SETTINGS, NOW).latest_end == latest
    assert offer(this, SETTINGS, NOW).minutes == (30,)
    assert extended(this, 40, SETTINGS, NOW) == HOUR + 2400
    with pytest.raises(NotAllowed) as refused:
        extended(this, 41, SETTINGS, NOW)
    end = clock(latest, NOW, zone=True)
    assert refused.value.message == (
        f"This session can be extended by at most 40 min, until {end}: {words}."
    )


@pytest.mark.parametrize("name", LIMITS)
def test_at_the_limit_nothing_is_offered(name: str) -> None:
    this, latest, words = LIMITS[name]
    at_the_end = Running(
        this.job.model_copy(
            update={"end_time": latest - 59, "time_limit": HOUR + int(latest - END) - 59}
        ),
        this.environment,
        this.snapshot,
        this.associations,
        this.asked,
    )
    found = offer(at_the_end, SETTINGS, NOW)
    assert not found.allowed
    assert found.reason == f"This session cannot be extended: {words}."
    with pytest.raises(NotAllowed, match="cannot be extended"):
        extended(at_the_end, 1, SETTINGS, NOW)


def test_an_end_beyond_a_limit_is_left_as_it_is() -> None:
    # An admin gave it more by hand, or the environment allows less since.
    long = running(time_limit=10 * HOUR, end_time=START + 10 * HOUR)
    found = offer(long, SETTINGS, NOW)
    assert (found.allowed, found.latest_end) == (False, START + 10 * HOUR)


def test_a_reservation_that_is_there_already_leaves_no_more_time() -> None:
    this = running(reservation("exam", NOW - 60, NOW + 9999))
    assert offer(this, SETTINGS, NOW).latest_end == END
    with pytest.raises(NotAllowed, match="'exam'"):
        extended(this, 1, SETTINGS, NOW)


def test_a_flexible_reservation_does_not_end_its_jobs() -> None:
    this = running(reservation("course", START, END, flags=("FLEX",)), reservation="course")
    assert offer(this, SETTINGS, NOW).minutes == (30, 60, 120)


def test_a_qos_may_exceed_the_time_of_its_partition() -> None:
    over = {"normal": Qos(name="normal", flags=("PartitionTimeLimit",))}
    assert offer(running(partition={"max_time": HOUR}, qos=over), SETTINGS, NOW).allowed


def test_the_site_limits_what_is_added_in_all() -> None:
    settings = Extending(most_minutes=45)
    assert offer(running(), settings, NOW).minutes == (30,)
    once = running(time_limit=HOUR + 1800, end_time=END + 1800)
    assert offer(once, settings, NOW).minutes == (15,)
    with pytest.raises(NotAllowed, match="at most 45 min in total"):
        extended(once, 16, settings, NOW)
    assert offer(running(asked=None), settings, NOW).minutes == (30, 60, 120)


# -- what cannot be extended ----------------------------------------------------------------------


@pytest.mark.parametrize("minutes", [0, -5, 121, 10**9])
def test_no_more_than_the_largest_step_at_once(minutes: int) -> None:
    with pytest.raises(InvalidRequest, match="1 min to 2 h at a time") as refused:
        extended(running(), minutes, SETTINGS, NOW)
    assert refused.value.field == "minutes"


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (JobState.PENDING, "has not started"),
        (JobState.REQUEUED, "has not started"),
        (JobState.COMPLETING, "has ended or is ending"),
        (JobState.TIMEOUT, "has ended or is ending"),
        (JobState.UNKNOWN, "has ended or is ending"),
    ],
)
def test_a_session_that_does_not_run_is_not_extended(state: JobState, words: str) -> None:
    with pytest.raises(Conflict, match=words):
        extended(running(state=state), 30, SETTINGS, NOW)
    assert words in offer(running(state=state), SETTINGS, NOW).reason


def test_without_a_time_limit_there_is_nothing_to_extend() -> None:
    with pytest.raises(Conflict, match="no time limit"):
        extended(running(time_limit=None, end_time=None), 30, SETTINGS, NOW)


def test_an_environment_that_is_gone_says_nothing_of_its_largest_time() -> None:
    with pytest.raises(NotAllowed, match="no longer offered"):
        extended(running(environment=None), 30, SETTINGS, NOW)


def test_where_the_site_does_not_want_it_nothing_is_offered() -> None:
    found = offer(running(), Extending(allowed=False), NOW)
    assert (found.allowed, found.minutes) == (False, ())
    assert found.reason == "This site does not allow extending sessions."
    assert offer(running(), Extending(allowed=False), NOW, anyway=True).minutes == (30, 60, 120)


# -- settings -------------------------------------------------------------------------------------


def test_minutes_are_put_in_order() -> None:
    made = Extending(config=Config({"Extending": {"minutes": (120, 30, 30)}}))
    assert made.minutes == (30, 120)


@pytest.mark.parametrize("wrong", [(), (0,), (-5,), (30, "60"), (1.5,), (True,), (10**6,)])
def test_minutes_that_cannot_be_are_refused(wrong: tuple[Any, ...]) -> None:
    with pytest.raises(TraitError):
        Extending(minutes=wrong)


def test_nobody_needs_to_be_warned() -> None:
    assert Extending(warn_minutes=()).warn_minutes == ()
