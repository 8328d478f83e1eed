"""Grades: nbgrader in the sessions of a course that has them, with the course's own exchange.

nbgrader finds its settings where Jupyter's are, so a course needs no file of its own anywhere:
those in `SETTINGS` read the session's variables. In every other session, config/ switches
nbgrader's extensions off: they would complain of a missing exchange. Students have the list of
their assignments; creating and grading them is for the staff.
"""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping
from pathlib import Path

SETTINGS = Path(__file__).parent / "grades_settings"


def set_settings(environ: MutableMapping[str, str]) -> None:
    """Configure nbgrader and Jupyter in a session of a course with grades. Call this before
    Jupyter is imported, and after `set_places`."""
    if not environ.get("PORTAL_COURSE_EXCHANGE"):
        return
    # nbgrader runs alembic by its name. Last in PATH: an image's own programs take precedence.
    scripts, path = str(Path(sys.executable).parent), environ.get("PATH", os.defpath)
    if scripts not in path.split(os.pathsep):
        environ["PATH"] = os.pathsep.join([path, scripts])
    parts = [SETTINGS / "everyone"]
    if environ.get("PORTAL_COURSE_ROLE") not in ("assistant", "instructor"):
        parts.insert(0, SETTINGS / "student")
    existing = [path for path in [environ.get("JUPYTER_CONFIG_PATH")] if path]
    environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join([*map(str, parts), *existing])
