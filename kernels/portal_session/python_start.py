"""Start of every Python of an environment that has this package, in a session or not.

Python calls the functions that ``portal_session.start`` names (PEP 829: from 3.15 on), or the lines
of ``portal_session.pth`` that name the same ones; 3.18 reads only the former. Nothing is imported
here that a bare Python has not loaded, and no function does anything outside of a session.
"""

from __future__ import annotations

import os
import sys


def add_user_site() -> None:
    """Add the user's own packages (`user_site`)."""
    if "PYTHONUSERBASE" in os.environ:
        from . import user_site

        user_site.enable()


def guard_kernels() -> None:
    """Keep other programs' kernels from ports (`kernels.local_kernels`)."""
    if "PORTAL_JOB_ID" in os.environ:
        from .kernels import local_kernels

        local_kernels.follow()


def freeze_modules() -> None:
    """Have a run's point import the modules of its source as they were (`runs.library`)."""
    folder = os.environ.get("PORTAL_FROZEN", "")
    if os.path.isfile(folder + "/portal_frozen.py"):  # noqa: PTH113
        sys.path.insert(0, folder)
        import portal_frozen

        portal_frozen.install()
        sys.path.remove(folder)
