"""Hub groups of the courses that a person is in, beside those of the directory.

Memberships are in the portal's database, which a login does not wait for: while it is away, the
groups stay as they were.
"""

from __future__ import annotations

from jupyterhub import orm
from jupyterhub.app import JupyterHub

from portal.models.course.course import group_of
from portal.models.space import SpaceState

from ..context import HubContext
from .roles import role_groups

PATIENCE = 1.0  # seconds that a login waits for the database
_PREFIX = group_of("")


async def course_groups(name: str) -> tuple[str, ...]:
    """Return the groups of the approved courses that ``name`` is in (c.PortalLogin.more_groups).

    A course's group with the name of a group that has a role of the site is left out: the Hub
    gives roles by name, so the course's roster, which its instructor writes, would give that role.
    """
    hub = JupyterHub.instance()
    try:
        memberships = await HubContext.instance(hub.config).memberships.mine(
            name, patience=PATIENCE
        )
    except Exception:  # a fault of ours, which is in the log, keeps nobody from logging in
        hub.log.warning(
            "Courses of %s were not refreshed: the portal's database does not answer", name
        )
        groups = held(hub.db, name)
    else:
        approved = [
            name
            for name, membership in memberships.items()
            if membership.stored.state is SpaceState.APPROVED
        ]
        groups = tuple(group_of(course) for course in approved)
    reserved = role_groups() if groups else ()
    return tuple(group for group in groups if group not in reserved)


def held(db: orm.Session, name: str) -> tuple[str, ...]:
    """Return the groups of courses that the Hub has for ``name``."""
    user = orm.User.find(db, name)
    groups = user.groups if user else ()
    return tuple(group.name for group in groups if group.name.startswith(_PREFIX))
