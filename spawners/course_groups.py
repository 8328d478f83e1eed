"""The Hub's groups of the courses that a person is in, beside those of the directory.

A membership is in the portal's database, which a login does not wait for: while it is away, what
was known stays.
"""

from __future__ import annotations

import asyncio

from jupyterhub import orm
from jupyterhub.app import JupyterHub

from portal.courses.book import CourseBook
from portal.errors import PortalError
from portal.models.course import CourseState, group_of

from .roles import role_groups
from .shared import Shared

PATIENCE = 1.0  # seconds that a login waits for the database
_PREFIX = group_of("")
# Questions that nobody waits for any more; asyncio itself keeps only weak references.
_late: set[asyncio.Task[tuple[str, ...]]] = set()


async def course_groups(name: str) -> tuple[str, ...]:
    """The groups of the approved courses that ``name`` is in (c.PortalLogin.more_groups).

    Where a group that has a role of the site is called like a course's, the roster of that course,
    which its instructor writes, gives nobody that role: the Hub gives roles by name.
    """
    hub = JupyterHub.instance()
    asked = asyncio.create_task(groups_in(Shared.of(hub.config).book, name))
    _late.add(asked)
    asked.add_done_callback(_done)
    await asyncio.wait({asked}, timeout=PATIENCE)
    if asked.done() and asked.exception() is None:
        mine = asked.result()
    else:
        hub.log.warning("Courses of %s stay as they were: the portal's database is away", name)
        mine = held(hub.db, name)
    others = role_groups() if mine else ()
    return tuple(one for one in mine if one not in others)


async def groups_in(book: CourseBook, name: str) -> tuple[str, ...]:
    """The same, from the book. Raises StoreUnavailable."""
    mine = await book.mine(name)
    return tuple(
        group_of(course) for course, one in mine.items() if one.kept.state is CourseState.APPROVED
    )


def held(db: orm.Session, name: str) -> tuple[str, ...]:
    """The groups of courses that the Hub has for ``name``."""
    user = orm.User.find(db, name)
    groups = user.groups if user else ()
    return tuple(one.name for one in groups if one.name.startswith(_PREFIX))


def _done(asked: asyncio.Task[tuple[str, ...]]) -> None:
    _late.discard(asked)
    error = None if asked.cancelled() else asked.exception()
    if error is not None and not isinstance(error, PortalError):
        JupyterHub.instance().log.error("Courses could not be read", exc_info=error)
