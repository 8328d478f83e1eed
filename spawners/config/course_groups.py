"""Hub groups of the courses and other spaces that a person is in, beside the directory's.

Memberships are in the portal's database, which a login does not wait for: while it is away, the
groups stay as they were.
"""

from __future__ import annotations

from jupyterhub import orm
from jupyterhub.app import JupyterHub

from portal.models.space import SpaceState
from portal.spaces.registry import space_type_of_group, type_of

from ..context import HubContext
from .roles import role_groups

PATIENCE = 1.0  # seconds that a login waits for the database


async def course_groups(name: str) -> tuple[str, ...]:
    """Return the groups of the approved spaces that ``name`` is in (c.PortalLogin.more_groups).

    A space's group with the name of a group that has a role of the site is left out: the Hub
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
            membership.stored.space
            for membership in memberships.values()
            if membership.stored.state is SpaceState.APPROVED
        ]
        prefixes = [(type_of(space).group_prefix, space.name) for space in approved]
        groups = tuple(f"{prefix}{space}" for prefix, space in prefixes if prefix)
    reserved = role_groups() if groups else ()
    return tuple(group for group in groups if group not in reserved)


def held(db: orm.Session, name: str) -> tuple[str, ...]:
    """Return the groups of spaces that the Hub has for ``name``."""
    user = orm.User.find(db, name)
    groups = user.groups if user else ()
    return tuple(group.name for group in groups if space_type_of_group(group.name))
