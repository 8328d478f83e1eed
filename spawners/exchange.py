"""The folder through which a course's assignments go out and come back (nbgrader's exchange).

Everyone in the course writes there under their own account, and the portal is not root and has no
Unix group for the course. So the folder lies below one that nobody can list but the portal's own
account, and has a name that nobody can guess; a course's sessions have it at `TARGET`. What lies in
it has the rights that nbgrader gives: released work is for all, submissions can be put there by all
and listed by who released the work.
"""

from __future__ import annotations

import asyncio
import secrets
import stat
import threading
from pathlib import Path

from portal.errors import ConfigurationError
from portal.models.course import CourseName

_PARENT = 0o711  # through it, but not around in it
_OPEN = 0o1777  # everyone may add, and remove what is theirs
_one_at_a_time = threading.Lock()


async def exchange_of(directory: str, course: CourseName) -> str:
    """The course's folder on the shared file system, made where it is not there; "" where the site
    has none (c.Courses.exchange_directory). Raises ConfigurationError."""
    if not directory:
        return ""
    try:
        return await asyncio.to_thread(_made, Path(directory), course)
    except OSError as error:
        raise ConfigurationError(
            f"The exchange of the course '{course}' cannot be made in '{directory}' "
            f"(c.Courses.exchange_directory): {error.strerror}."
        ) from None


def _made(directory: Path, course: str) -> str:
    with _one_at_a_time:  # a class starts at once, and has one folder
        directory.mkdir(parents=True, exist_ok=True)
        if stat.S_IMODE(directory.stat().st_mode) != _PARENT:
            directory.chmod(_PARENT)
        # No course's name has a dot in it.
        found = sorted(directory.glob(f"{course}.*"))
        if found:
            return str(found[0])
        folder = directory / f"{course}.{secrets.token_hex(16)}"
        folder.mkdir()
        folder.chmod(_OPEN)
        return str(folder)
