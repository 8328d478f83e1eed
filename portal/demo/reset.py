"""``portal demo --reset``: delete the state of a demo that does not run."""

from __future__ import annotations

import shutil

from ..errors import ConfigurationError
from .home import Home


def remove(home: Home) -> None:
    """Delete ``home.demo`` and everything in it; the cache stays.

    Raises ConfigurationError if the directory was not made by the demo.
    """
    if not home.demo.exists():
        return
    if home.demo.is_symlink() or not (home.demo / "lock").exists():
        raise ConfigurationError(
            f"{home.demo} was not created by `portal demo` and is not deleted."
        )
    shutil.rmtree(home.demo)
