"""Extensions of a running session's time. Pure.

Slurm itself takes any time limit from an Operator, whatever partition, QOS or association allow
(update_job in src/slurmctld/job_mgr.c), so the limits of a launch are checked here again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from traitlets import Bool, Integer, TraitError, Tuple, validate
from traitlets.config import Configurable

from ..errors import Conflict, InvalidRequest, NotAllowed, PortalError
from ..models.catalog.environment import Environment
from ..models.cluster.cluster import Association, ClusterSnapshot, Job, JobState
from ..models.situation import ExtendOffer
from ..models.words import clock, duration
from ..setting import setting
from .limits.limits import ANY_TIME, longest_wall
from .limits.qos import charged, limiting

_GOES_ON = frozenset({JobState.RUNNING, JobState.SUSPENDED, JobState.STOPPED, JobState.SIGNALING})
_FLEXIBLE = "FLEX"  # scontrol(1): jobs of such a reservation may end after it
_A_WEEK = 7 * 24 * 60


class Extending(Configurable):
    """Settings of a site for extending running sessions."""

    allowed = setting(
        Bool(True),
        """Allow owners to extend their running sessions, within the limits of the environment,
        partition, QOS and account. Users with custom:portal:jobs:manage always may.""",
        "c.Extending.allowed = False",
    )

    minutes = setting(
        Tuple((30, 60, 120)),
        """Minutes by which a session can be extended in one step, in ascending order. The largest
        is the maximum.""",
        "c.Extending.minutes = (60, 240)",
    )

    most_minutes = setting(
        Integer(0, min=0),
        """Maximum total extension beyond the time limit of the launch, in minutes; 0: only the
        limits of the environment, partition, QOS and account apply.""",
        "c.Extending.most_minutes = 480",
    )

    warn_minutes = setting(
        Tuple((15, 5)),
        "Minutes before a session's end at which it warns its owner, in JupyterLab.",
        "c.Extending.warn_minutes = (30, 10, 2)",
    )

    @validate("minutes", "warn_minutes")
    def _check(self, proposal: dict[str, object]) -> tuple[int, ...]:
        value = proposal["value"]
        assert isinstance(value, tuple)
        if not all(type(number) is int and 0 < number <= _A_WEEK for number in value):
            raise TraitError(f"Must be whole minutes from 1 to {_A_WEEK}, not {value!r}.")
        if not value and proposal["trait"].name == "minutes":  # type: ignore[attr-defined]
            raise TraitError("c.Extending.minutes is empty: set c.Extending.allowed = False.")
        return tuple(sorted(set(value)))


@dataclass(frozen=True)
class Running:
    """Running job of a session, and all that limits its time."""

    job: Job
    # The catalog's now, whoever may use it; None: it has none of that name any more.
    environment: Environment | None
    snapshot: ClusterSnapshot  # its ``qos`` may be empty: not known, or the site has none
    associations: Sequence[Association] | None = None  # None: not known, or the site has none
    asked: int | None = None  # seconds that its launch asked for


class _Bound(NamedTuple):
    """Limit of an extension: seconds that are left, and what ends them."""

    room: float
    why: str


def offer(
    running: Running, settings: Extending, now: float, *, anyway: bool = False
) -> ExtendOffer:
    """Return what may be chosen at ``now`` (Unix seconds). ``anyway``: by somebody for whom
    ``settings.allowed`` does not count."""
    try:
        end, bound = _end_and_bound(running, settings, now)
    except PortalError as error:
        return ExtendOffer(reason=error.message)
    gone = max(0.0, now - end)  # slurm.conf(5) OverTimeLimit: it may go on for a while
    room = math.inf if bound is None else bound.room - gone
    minutes = tuple(choice for choice in settings.minutes if choice * 60 <= room)
    if not minutes and room >= 60:
        minutes = (int(room // 60),)
    latest = None if bound is None else end + bound.room
    if not (settings.allowed or anyway):
        return ExtendOffer(latest_end=latest, reason="This site does not allow extending sessions.")
    if not minutes and bound is not None:
        return ExtendOffer(latest_end=max(end, latest or 0), reason=_cannot(bound))
    return ExtendOffer(allowed=True, minutes=minutes, latest_end=latest)


def extended(running: Running, minutes: int, settings: Extending, now: float) -> int:
    """Return the job's time limit, in seconds, with ``minutes`` more; always more than it has.

    Raises InvalidRequest, NotAllowed, which names the latest possible end, and Conflict for a job
    that does not run. Callers check ``settings.allowed``.
    """
    if not 1 <= minutes <= max(settings.minutes):
        most = duration(60 * max(settings.minutes))
        raise InvalidRequest(f"A session can be extended by 1 min to {most} at a time.", "minutes")
    end, bound = _end_and_bound(running, settings, now)
    gone = max(0.0, now - end)
    wanted = minutes * 60 + gone
    if bound is not None and bound.room < wanted:
        room = int((bound.room - gone) // 60)
        if room < 1:
            raise NotAllowed(_cannot(bound))
        raise NotAllowed(
            f"This session can be extended by at most {duration(60 * room)}, "
            f"until {clock(end + bound.room, now, zone=True)}: {bound.why}."
        )
    assert running.job.time_limit is not None  # _end_and_bound saw it
    return running.job.time_limit + math.ceil(wanted / 60) * 60


def _cannot(bound: _Bound) -> str:
    return f"This session cannot be extended: {bound.why}."


def _end_and_bound(
    running: Running, settings: Extending, now: float
) -> tuple[float, _Bound | None]:
    """Return the end of its time, and the nearest of all limits. Raises Conflict, NotAllowed."""
    job = running.job
    if job.state.pending:
        raise Conflict("This session has not started yet, so it cannot be extended.")
    if job.state not in _GOES_ON:
        raise Conflict("This session has ended or is ending.")
    if job.time_limit is None or job.end_time is None:
        raise Conflict("This session has no time limit: there is nothing to extend.")
    if running.environment is None:
        raise NotAllowed(
            "This session cannot be extended, because its environment is no longer offered."
        )
    bounds = [
        *_bounds_of_time(running, running.environment, settings, job.time_limit),
        *_bounds_of_reservations(job, running.snapshot, job.end_time, now),
    ]
    return job.end_time, min(bounds, default=None)


def _bounds_of_time(
    running: Running, environment: Environment, settings: Extending, limit: int
) -> list[_Bound]:
    """Return the limits on its time from its start to its end."""
    job, snapshot = running.job, running.snapshot
    bounds = []
    if environment.max_time is not None:
        most = duration(environment.max_time)
        why = f"'{environment.title}' allows a time limit of at most {most}"
        bounds.append(_Bound(environment.max_time - limit, why))
    flags = snapshot.qos[job.qos].flags if job.qos in snapshot.qos else ()
    partition = snapshot.partitions.get(job.partition)
    if partition is not None and partition.max_time is not None and ANY_TIME not in flags:
        most = duration(partition.max_time)
        why = f"the partition '{partition.name}' allows a time limit of at most {most}"
        bounds.append(_Bound(partition.max_time - limit, why))
    if running.associations is not None:
        rows = charged(job.account or None, job.partition, running.associations)
        who, longest = longest_wall(rows, limiting(snapshot, job.qos, job.partition))
        if longest is not None:
            most = duration(longest)
            why = f"{who[0].lower()}{who[1:]} allows a time limit of at most {most}"
            bounds.append(_Bound(longest - limit, why))
    if settings.most_minutes and running.asked is not None:
        most = duration(settings.most_minutes * 60)
        why = f"sessions can be extended by at most {most} in total"
        bounds.append(_Bound(running.asked + settings.most_minutes * 60 - limit, why))
    return bounds


def _bounds_of_reservations(
    job: Job, snapshot: ClusterSnapshot, end: float, now: float
) -> list[_Bound]:
    """Return the end of its own reservation, and the starts of others on its nodes."""
    own = set(job.reservation.split(",")) - {""}
    bounds = []
    for reservation in snapshot.reservations.values():
        if reservation.name in own:
            if _FLEXIBLE not in reservation.flags:
                why = f"its reservation '{reservation.name}' ends then"
                bounds.append(_Bound(reservation.end_time - end, why))
        elif reservation.end_time > now and not set(job.nodes).isdisjoint(reservation.nodes):
            # An overlap that exists already is Slurm's or an admin's doing: no extension.
            why = f"the reservation '{reservation.name}' needs the session's node then"
            bounds.append(_Bound(max(0.0, reservation.start_time - end), why))
    return bounds
