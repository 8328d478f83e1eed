"""GPUs that a member of a course has at once: the session's, and those of its kernels in jobs of
their own. A course gives each member as many as its largest session has. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ...models.course.course import Course
from ...models.words import count
from .job_kernel import OPTION, is_kernel


class MemberGpus(NamedTuple):
    """Number of GPUs that a member of a course has, in the session and in its kernels."""

    session: int = 0
    kernels: int = 0


def most_gpus(course: Course) -> int:
    """Return the maximum number of GPUs that a member of the course has at once."""
    return max(course.default.gpus, course.largest.gpus) * course.default.nodes


def held_gpus(course: Course, launches: Iterable[tuple[str, Mapping[str, Any]]]) -> MemberGpus:
    """Return the GPUs of a member's ``launches`` that wait or run: the server's name and the
    ``user_options`` of each. Those outside of the course do not count."""
    session = kernels = 0
    for server, options in launches:
        gpus = _number(options.get("gpus"))
        if server == course.server:
            session += gpus * course.default.nodes
        elif is_kernel(server) and course_of(options) == course.name:
            kernels += gpus
    return MemberGpus(session, kernels)


def course_of(options: Mapping[str, Any]) -> str:
    """Return the course of a kernel, from its ``user_options``; "" for none."""
    kernel = options.get(OPTION)
    return str(kernel.get("course") or "") if isinstance(kernel, Mapping) else ""


def too_many(course: Course, wanted: int, held: MemberGpus, *, kernel: bool) -> str:
    """Return why a member who has ``held`` GPUs cannot have ``wanted`` more; "" if they can.
    ``kernel``: they are for a kernel, else for the session."""
    most = most_gpus(course)
    if not wanted or wanted + held.session + held.kernels <= most:
        return ""
    gives = f"The course '{course.title}' allows each member {count(most, 'GPU')} at once"
    holders = [f"your session has {held.session}"] if held.session else []
    holders += [f"your kernels have {held.kernels}"] if held.kernels else []
    if not holders:
        return f"{gives}, not {wanted}."
    ways = ["shut down a kernel"] if held.kernels else []
    ways += ["give your session fewer GPUs"] if held.session and kernel else []
    way = " or ".join(ways) or "ask for fewer GPUs"
    return f"{gives}: {' and '.join(holders)}. {way[0].upper()}{way[1:]} first."


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
