"""Work and space of sessions that a version before 0019 started, which did not store them.

For the migration of the table, and for what the Hub stored of servers. It stays as it is.
"""

import re
from collections.abc import Mapping
from typing import Any

_BY_ID = re.compile(r"(kernel|run)-[0-9a-f]{8,20}")
_OF_COURSE = re.compile(r"(course|rehearsal|preview|room)-(?=.{1,20}$)([a-z0-9]+(?:-[a-z0-9]+)*)")


def with_work(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a record of the Hub, with work and space also if such a version stored
    it: with a course, and no work."""
    if "work" in values:
        return dict(values)
    former = dict(values)
    work, space = work_and_space(former.get("server", ""), former.get("options", {}))
    return former | {"work": work, "space": former.pop("course", "") or space}


def work_and_space(server: str, options: Mapping[str, Any]) -> tuple[str, str]:
    """Return the work of a server of this name, whose session has these ``user_options``, and its
    course; "" for none."""
    if by_id := _BY_ID.fullmatch(server):
        own = options.get(by_id[1])
        return by_id[1], str(own.get("course") or "") if isinstance(own, Mapping) else ""
    if of_course := _OF_COURSE.fullmatch(server):
        return "jupyterlab" if of_course[1] == "course" else of_course[1], of_course[2]
    if options.get("tensorboard"):
        return "tensorboard", ""
    return str(options.get("kind") or "jupyterlab"), ""
