"""The folder through which a course's assignments go out and come back (nbgrader's exchange), for
one of its members (portal/courses/files/nbgrader_exchange.py). What lies in it has the rights that
nbgrader gives: released work is for all, submissions can be put there by all and listed by who
released the work.
"""

from __future__ import annotations

import asyncio
import pwd
from pathlib import Path

from portal.courses.files.nbgrader_exchange import INSIDE, admit, folder_of
from portal.errors import ConfigurationError
from portal.models.course.course import CourseName


async def exchange_of(directory: str, course: CourseName, account: str) -> str:
    """The course's folder on the shared file system, made where it is not there and open to
    ``account``; "" where the site has none (c.Courses.exchange_directory).

    ``account`` is known to exist. Raises ConfigurationError.
    """
    if not directory:
        return ""
    try:
        return await asyncio.to_thread(_opened, Path(directory), course, account)
    except (OSError, KeyError) as error:
        why = error.strerror if isinstance(error, OSError) else f"{account} is not known"
        raise ConfigurationError(
            f"The exchange of the course '{course}' cannot be made in '{directory}' "
            f"(c.Courses.exchange_directory): {why}. An admin can look with 'portal doctor'."
        ) from None


def _opened(directory: Path, course: str, account: str) -> str:
    folder = folder_of(directory, course)
    admit(folder, pwd.getpwnam(account).pw_uid)
    return str(folder / INSIDE)
