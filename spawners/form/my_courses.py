"""Courses of a person, first on the home page and on the launch page: a button for each."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from jupyterhub.app import JupyterHub

from portal.courses.roster.my_courses import MyCourse, courses_of
from portal.launch.kinds import reserved_for

from ..context import HubContext


async def _for_user(person: Any) -> tuple[MyCourse, ...]:
    return await courses_of(
        HubContext.instance(JupyterHub.instance().config).memberships, person.name
    )


# Functions for the Hub's page templates, as the variable `portal_courses`: the courses of a
# user of the Hub (Jinja awaits them), and the kind of session, a course's or a kernel, to which a
# server's name belongs.
FOR_PAGES = SimpleNamespace(for_user=_for_user, has=reserved_for)
