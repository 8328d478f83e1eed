"""Folder through which a course's assignments are released and submitted (nbgrader's exchange),
for one of its members (portal/courses/files/nbgrader_exchange.py). Its files have the rights that
nbgrader gives: all can read released work and add submissions, which whoever released the work
can list.
"""

from __future__ import annotations

import asyncio
import pwd
from pathlib import Path

from portal.courses.files.nbgrader_exchange import INSIDE, admit, folder_of
from portal.errors import ConfigurationError
from portal.models.course.course import CourseName


async def exchange_of(directory: str, course: CourseName, account: str) -> str:
    """Return the course's folder on the shared file system, made if it is missing and open to
    ``account``; "" if the site has none (c.Courses.exchange_directory).

    ``account`` is known to exist. Raises ConfigurationError.
    """
    if not directory:
        return ""
    try:
        return await asyncio.to_thread(_opened, Path(directory), course, account)
    except (OSError, KeyError) as error:
        why = error.strerror if isinstance(error, OSError) else f"{account} is not known"
        raise ConfigurationError(
            f"The exchange of the course '{course}' cannot be created in '{directory}' "
            f"(c.Courses.exchange_directory): {why}. An admin can check with 'portal doctor'."
        ) from None


def _opened(directory: Path, course: str, account: str) -> str:
    folder = folder_of(directory, course)
    admit(folder, pwd.getpwnam(account).pw_uid)
    return str(folder / INSIDE)
