"""Courses of a person, first on the home page and on the launch page: a button for each."""

from __future__ import annotations

import time
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from jupyterhub.app import JupyterHub

from portal.courses.roster.membership_cache import Membership, MembershipCache
from portal.courses.roster.my_courses import MyCourse, my_courses
from portal.errors import PortalError
from portal.launch.course import server_of

from ..context import HubContext

_PATIENCE = 0.3  # seconds that a page waits for the database


async def courses_of(memberships: MembershipCache, name: str) -> tuple[MyCourse, ...]:
    """Return the courses for a page: those known before, if the database does not answer within
    a moment."""
    try:
        mine: Iterable[Membership] = (await memberships.mine(name, patience=_PATIENCE)).values()
    except (PortalError, TimeoutError):  # the store says so in the log
        mine = memberships.known_to(name)
    return my_courses(mine, time.time())


async def _of(person: Any) -> tuple[MyCourse, ...]:
    return await courses_of(HubContext.of(JupyterHub.instance().config).memberships, person.name)


# Functions for the Hub's page templates, as the variable `portal_courses`: the courses of a
# user of the Hub (Jinja awaits them), and whether a server's name is that of a course's.
FOR_PAGES = SimpleNamespace(of=_of, has=server_of)
