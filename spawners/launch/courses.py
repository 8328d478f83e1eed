"""Checks of courses' sessions in the Hub: who is in the course, whether it is on, and what is left
of its budget. The rules that follow from that are pure (portal/launch/course.py)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jupyterhub import orm

from portal.courses.definition.calendar import meetings
from portal.courses.definition.sources import root_of
from portal.courses.schedule.next_meeting import next_meeting
from portal.errors import NotAllowed, PortalError
from portal.launch.course import (
    ServerOf,
    bound,
    check_asked,
    meeting,
    narrowed,
    unfit,
    until,
)
from portal.launch.kinds import of_server
from portal.launch.kinds.course import CourseSession
from portal.launch.kinds.kind import AskedFor, LaunchFacts, Place
from portal.launch.policy import usable_reservation
from portal.models.catalog.environment import Bind, Environment
from portal.models.cluster.cluster import Association, ClusterSnapshot
from portal.models.course.course import STAFF, Course, KeptCourse, Role

from ..lifecycle.stop_reason import SERVICE
from ..session import SessionSpawner
from .nbgrader_exchange import exchange_of

if TYPE_CHECKING:
    from collections.abc import Sequence


_RESERVED = 2.0  # seconds for which the lack of a meeting's reservation is cached


async def course_offer(
    spawner: SessionSpawner,
    kind: CourseSession,
    asked: AskedFor,
    facts: LaunchFacts,
) -> Place:
    """Return a session of a course as it may be launched now, with the reservation of a meeting
    that is on.

    Membership is queried anew. Raises InvalidRequest, NotAllowed, StoreUnavailable.
    """
    course = kind.course
    kept, role = await _membership(spawner, course)
    reason = kind.closed(kept, role, time.time())
    if reason:
        raise NotAllowed(reason)
    if not facts.runs:
        _may_start(spawner, kind, role)
    environment = await _environment(spawner, kept)
    check_asked(asked.said(), environment)
    spent = await spawner.shared.budgets.spent(kept.course)
    if spent and asked.resources.gpus:
        raise NotAllowed(spent)
    offered = narrowed(environment, kept.course, gpus=not spent)
    snapshot = await _with_reservation(spawner, kept.course, facts.snapshot)
    offered = _at_the_meeting(spawner, course, offered, snapshot, facts.associations)
    exchange = ""
    if kept.course.grades and kind.graded:
        place = spawner.shared.courses.exchange_directory
        exchange = await exchange_of(place, course, spawner.account)
    session = type(kind)(
        course=course,
        course_title=kept.course.title,
        role=role,
        data=kept.course.data,
        data_root=root_of(kept.course.data or "", spawner.shared.courses.data_roots),
        exchange=exchange or None,
    )
    offered = with_data(offered, kept.course)
    return Place({offered.name: offered}, snapshot, session)


async def course_form(spawner: SessionSpawner, named: ServerOf, problems: Sequence[str]) -> str:
    """Return the launch form of a course's session: a button, or why there is none. ``problems``:
    why the person could start no session at all."""
    now, title, upcoming, note = time.time(), "", "", ""
    kind = of_server(spawner.name)
    assert kind is not None and issubclass(kind, CourseSession)
    problems = list(problems)
    try:
        kept, role = await _membership(spawner, named.course)
        title, upcoming = kept.course.title, next_meeting(kept.course, now)
        if reason := kind.closed(kept, role, now):
            problems.append(reason)
        note = await spawner.shared.budgets.spent(kept.course)
    except PortalError as error:
        problems.append(error.message)
    return spawner.shared.form.render_course(
        course=named.course,
        title=title,
        meeting=upcoming,
        note=note,
        about=kind.about,
        problems=problems,
    )


async def _membership(spawner: SessionSpawner, course: str) -> tuple[KeptCourse, Role]:
    memberships, name = spawner.shared.memberships, spawner.user.name
    await memberships.of(name, fresh=True)  # the course may be seconds old: all ask for it at once
    membership = await memberships.membership(name, course)
    return membership.kept, membership.role


def _may_start(spawner: SessionSpawner, kind: CourseSession, role: Role) -> None:
    """Raise NotAllowed if only staff, or the service, may start such a session."""
    if role in STAFF or kind.starters == "members":
        return
    if kind.starters != "service":
        raise NotAllowed("Only the staff of a course can start this session.")
    asker = getattr(spawner.handler, "current_user", None)
    if not (isinstance(asker, orm.Service) and asker.name == SERVICE):
        raise NotAllowed(
            "Only the staff of a course can start a rehearsal, from the course's page."
        )


async def _environment(spawner: SessionSpawner, kept: KeptCourse) -> Environment:
    """Return the pinned environment, on the GPUs where it passed its tests. Raises NotAllowed."""
    pinned = kept.pinned
    assert pinned is not None  # checked by CourseSession.closed
    reason = unfit(pinned)
    if reason:
        raise NotAllowed(reason)
    catalog = spawner.shared.catalog
    await catalog.load()
    offer = await catalog.offering.of(pinned)
    if offer.environment is None:
        raise NotAllowed(
            f"The environment of the course '{kept.course.title}' cannot be used now. "
            f"{offer.reason} Its instructor can choose another one."
        )
    return offer.environment


async def _with_reservation(
    spawner: SessionSpawner, course: Course, snapshot: ClusterSnapshot
) -> ClusterSnapshot:
    """Return ``snapshot``, with reservations queried anew if a meeting is on and its own is not
    among them: a course that was approved a moment ago has one since then."""
    now, wanted = time.time(), course.reservation
    if not (wanted.nodes or wanted.gpus) or meeting(course.name, snapshot.reservations, now):
        return snapshot
    if not meetings(course, now, now + 1):
        return snapshot
    fresh = await spawner.shared.cluster.reservations(time.monotonic() - _RESERVED)
    return snapshot.model_copy(update={"reservations": fresh})


def _at_the_meeting(
    spawner: SessionSpawner,
    course: str,
    environment: Environment,
    snapshot: ClusterSnapshot,
    associations: Sequence[Association] | None,
) -> Environment:
    """Return ``environment`` in the reservation of a meeting that is on, and not longer than that
    if Slurm would end its jobs."""
    now = time.time()
    for reservation in meeting(course, snapshot.reservations, now):
        if usable_reservation(reservation, spawner.person, associations):
            usual = environment.default.model_copy(update={"reservation": reservation.name})
            inside = environment.model_copy(update={"default": usual})
            return until(inside, reservation.end_time - now) if bound(reservation) else inside
    return environment


def with_data(environment: Environment, course: Course) -> Environment:
    """Return ``environment`` with only read-only binds of its own, and the course's data."""
    binds = [bind for bind in environment.binds if bind.read_only]
    if course.data:
        binds.append(Bind(source=course.data))
    return environment.model_copy(update={"binds": tuple(binds)})
