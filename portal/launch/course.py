"""Sessions of a course: the names of their servers, and what they may be. Pure.

Callers check whether the person is in the course (spawners/launch/courses.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from ..errors import InvalidRequest
from ..models.catalog.environment import Environment, EnvironmentKind, Server
from ..models.cluster.cluster import Reservation
from ..models.course.course import CourseName

OPTION = "course"  # the key of ``user_options`` with the course's name

_NAME: TypeAdapter[str] = TypeAdapter(CourseName)
_SERVER = re.compile(r"(course|rehearsal|preview|room)-(.+)")
_FLEXIBLE = "FLEX"  # scontrol(1): jobs of such a reservation may end after it


class CourseKind(StrEnum):
    """Purpose of a course's session; its server's name begins with it."""

    COURSE = "course"  # a member's own
    REHEARSAL = "rehearsal"  # its home is thrown away
    PREVIEW = "preview"  # staff see what a student would
    ROOM = "room"  # notebooks that the course shares


class ServerOf(NamedTuple):
    """Course and kind in a server's name."""

    course: str
    kind: CourseKind


def parsed_server(server: str) -> ServerOf | None:
    """Return the course and the kind in a server's name; None if it is no course's."""
    match = _SERVER.fullmatch(server)
    if match is None or not _is_name(match[2]):
        return None
    return ServerOf(match[2], CourseKind(match[1]))


def course_named(value: object) -> str:
    """Return the course that the option names ("" for none). Raises InvalidRequest for what cannot
    be a course's name."""
    if value is None or value == "":
        return ""
    if not isinstance(value, str) or not _is_name(value):
        raise InvalidRequest(
            "'course' must be the name of a course: lowercase letters, digits and dashes.", OPTION
        )
    return value


def course_kind(course: str, server: str) -> CourseKind | None:
    """Return the purpose of the session on ``server``, if allowed; None for a person's own
    session.

    Names that belong to courses are used for nothing else, and courses have no other sessions.
    Raises InvalidRequest.
    """
    named = parsed_server(server)
    if not course:
        if named is None:
            return None
        raise InvalidRequest(
            f"The name '{server}' is reserved for a session of the course '{named.course}'. "
            "Launch that session from the course, or choose another name.",
            OPTION,
        )
    if named is None or named.course != course:
        raise InvalidRequest(
            f"A session of the course '{course}' must have the name 'course-{course}', not "
            f"'{server[:60]}'.",
            OPTION,
        )
    return named.kind


def _is_name(text: str) -> bool:
    try:
        _NAME.validate_python(text)
    except ValidationError:
        return False
    return True


def unfit(environment: Environment) -> str:
    """Return why an environment cannot be a course's; "" if it can.

    Helpers are let into a student's session: so what runs there must see the course's folder and
    nothing else that is the student's, and only a container can do that.
    """
    if environment.kind is not EnvironmentKind.CONTAINER:
        return (
            f"'{environment.title}' is not a container. Course sessions run in containers, "
            "which see only the course's folder of a student's files. Choose another "
            "environment."
        )
    if environment.server is Server.BESIDE:
        return (
            f"The server of '{environment.title}' runs outside its container, where it sees "
            "all of a student's files. Choose an environment that has JupyterLab inside."
        )
    return ""


def meeting(course: str, reservations: Mapping[str, Reservation], now: float) -> list[Reservation]:
    """Return the reservations of the course's meetings that are on ``now`` (Unix seconds), the
    latest end first. They are called "course-NAME-20270503T0700", by the meeting's start in UTC
    (portal/courses/schedule/plan.py)."""
    name = re.compile(rf"course-{re.escape(course)}-[0-9]{{8}}T[0-9]{{4}}")
    reserved = [
        reservation
        for reservation in reservations.values()
        if name.fullmatch(reservation.name) and reservation.start_time <= now < reservation.end_time
    ]
    return sorted(reserved, key=lambda reservation: (-reservation.end_time, reservation.name))


def bound(reservation: Reservation) -> bool:
    """Return True if Slurm ends the jobs of this reservation with it."""
    return _FLEXIBLE not in reservation.flags
