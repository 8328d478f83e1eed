"""Checks of courses' sessions in the Hub: who is in the course, whether it is on, and what is left
of its budget. The rules that follow from that are pure (portal/launch/course.py)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jupyterhub import orm

from portal.courses.definition.calendar import meetings
from portal.courses.definition.pinned import usable_environment
from portal.courses.definition.sources import root_of
from portal.courses.schedule.next_meeting import next_meeting
from portal.errors import NotAllowed, PortalError
from portal.launch.course import check_asked, meeting
from portal.launch.course_meeting import at_the_meeting
from portal.launch.kinds import Address
from portal.launch.kinds.closed import closed
from portal.launch.kinds.kind import AskedFor, Kind, LaunchFacts, Place
from portal.launch.kinds.member_gpus import held_gpus, too_many, too_many_points
from portal.launch.kinds.run import Run
from portal.launch.kinds.space import Space
from portal.models.catalog.environment import Bind, Environment
from portal.models.cluster.cluster import ClusterSnapshot
from portal.models.course.course import STAFF, Course, KeptCourse, Role

from ..lifecycle.stop_reason import SERVICE
from ..session import SessionSpawner
from .nbgrader_exchange import exchange_of
from .other_launches import other_launches

if TYPE_CHECKING:
    from collections.abc import Sequence


_RESERVED = 2.0  # seconds for which the lack of a meeting's reservation is cached


async def course_offer(
    spawner: SessionSpawner,
    kind: Kind,
    asked: AskedFor,
    facts: LaunchFacts,
) -> Place:
    """Return a session of a course as it may be launched now, with the reservation of a meeting
    that is on.

    Membership is queried anew. Raises InvalidRequest, NotAllowed, StoreUnavailable.
    """
    course = kind.space_name
    kept, role = await _membership(spawner, course)
    reason = closed(type(kind), kept, role, time.time())
    if reason:
        raise NotAllowed(reason)
    if not facts.runs:
        _may_start(spawner, kind, role)
    catalog = spawner.shared.catalog
    await catalog.load()
    environment = await usable_environment(catalog.offering, kept)
    check_asked(asked.said(), environment)
    spent = await spawner.shared.budgets.spent(kept.course)
    needs_gpus = kind.needs_gpus(asked, kept.course)
    if spent and (asked.resources.gpus or needs_gpus):
        raise NotAllowed(spent)
    offered = kind.narrowed(environment, kept.course, asked, gpus=not spent)
    snapshot = await _with_reservation(spawner, kept.course, facts.snapshot)
    offered = at_the_meeting(
        course,
        offered,
        snapshot,
        spawner.person,
        facts.associations,
        time.time(),
        needs_gpus=needs_gpus,
    )
    exchange = ""
    if kept.course.grades and kind.graded:
        place = spawner.shared.courses.exchange_directory
        exchange = await exchange_of(place, course, spawner.account)
    space = Space(
        name=course,
        title=kept.course.title,
        role=role,
        data=kept.course.data,
        data_root=root_of(kept.course.data or "", spawner.shared.courses.data_roots),
        exchange=exchange or None,
    )
    offered = with_data(offered, kept.course)
    # Nothing is awaited after this, or launches at the same moment would not see each other.
    _check_held(spawner, kind, kept.course, offered, asked)
    return Place({offered.name: offered}, snapshot, kind.model_copy(update={"space": space}))


async def course_form(spawner: SessionSpawner, address: Address, problems: Sequence[str]) -> str:
    """Return the launch form of a course's session: a button, or why there is none. ``problems``:
    why the person could start no session at all."""
    now, title, upcoming, note = time.time(), "", "", ""
    kind = address.kind
    problems = list(problems)
    try:
        kept, role = await _membership(spawner, address.space)
        title, upcoming = kept.course.title, next_meeting(kept.course, now)
        if reason := closed(kind, kept, role, now):
            problems.append(reason)
        note = await spawner.shared.budgets.spent(kept.course)
    except PortalError as error:
        problems.append(error.message)
    return spawner.shared.form.render_course(
        course=address.space,
        title=title,
        meeting=upcoming,
        note=note,
        about=kind.about,
        problems=problems,
    )


async def _membership(spawner: SessionSpawner, course: str) -> tuple[KeptCourse, Role]:
    memberships, name = spawner.shared.memberships, spawner.user.name
    await memberships.of_user(
        name, fresh=True
    )  # the course may be seconds old: all ask for it at once
    membership = await memberships.membership(name, course)
    return membership.kept, membership.role


def _may_start(spawner: SessionSpawner, kind: Kind, role: Role) -> None:
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


def _check_held(
    spawner: SessionSpawner,
    kind: Kind,
    course: Course,
    offered: Environment,
    asked: AskedFor,
) -> None:
    """Raise NotAllowed if the owner would have more in the course at once than it allows: GPUs in
    the session, its kernels and its runs together, CPUs in runs. Rooms, rehearsals and previews do
    not count."""
    if kind.serves and not kind.job_kernels:
        return
    launches = other_launches(spawner)
    gpus = asked.said().get("gpus", offered.default.gpus)
    if isinstance(kind, Run):
        cpus = asked.said().get("cpus", offered.default.cpus) or 1
        reason = too_many_points(course, kind.run, gpus, cpus, launches, offered.max_cpus)
    else:
        held, wanted = held_gpus(course, launches), gpus * offered.default.nodes
        only_session = kind.serves and not (held.kernels or held.runs)
        reason = "" if only_session else too_many(course, wanted, held, beside=not kind.serves)
    if reason:
        raise NotAllowed(reason)


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


def with_data(environment: Environment, course: Course) -> Environment:
    """Return ``environment`` with only read-only binds of its own, and the course's data."""
    binds = [bind for bind in environment.binds if bind.read_only]
    if course.data:
        binds.append(Bind(source=course.data))
    return environment.model_copy(update={"binds": tuple(binds)})
