"""The Hub's groups of the courses that a person is in, beside those of the directory.

A membership is in the portal's database, which a login does not wait for: while it is away, what
was known stays.
"""

from __future__ import annotations

from jupyterhub import orm
from jupyterhub.app import JupyterHub

from portal.models.course.course import CourseState, group_of

from ..context import Shared
from .roles import role_groups

PATIENCE = 1.0  # seconds that a login waits for the database
_PREFIX = group_of("")


async def course_groups(name: str) -> tuple[str, ...]:
    """The groups of the approved courses that ``name`` is in (c.PortalLogin.more_groups).

    Where a group that has a role of the site is called like a course's, the roster of that course,
    which its instructor writes, gives nobody that role: the Hub gives roles by name.
    """
    hub = JupyterHub.instance()
    try:
        found = await Shared.of(hub.config).book.mine(name, patience=PATIENCE)
    except Exception:  # a fault of ours, which is in the log, keeps nobody from logging in
        hub.log.warning("Courses of %s stay as they were: the portal's database is away", name)
        mine = held(hub.db, name)
    else:
        approved = [name for name, one in found.items() if one.kept.state is CourseState.APPROVED]
        mine = tuple(group_of(course) for course in approved)
    others = role_groups() if mine else ()
    return tuple(one for one in mine if one not in others)


def held(db: orm.Session, name: str) -> tuple[str, ...]:
    """The groups of courses that the Hub has for ``name``."""
    user = orm.User.find(db, name)
    groups = user.groups if user else ()
    return tuple(one.name for one in groups if one.name.startswith(_PREFIX))
