"""The base of kinds that open a program of their environment behind the session's login.

The session's server starts it and redirects the browser to it (portal_session/program/program.py);
it has no login of its own that a person would see.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

from . import safe_version
from .kind import Kind

_GUARD = Path(safe_version.__file__).read_text(encoding="utf-8")
PAGE = "/portal/program/"  # of portal_session, below the server's address


class ProgramKind(Kind):
    """Kind whose ``argv`` runs in the environment, with {python}, {port} (of 127.0.0.1), {base}
    (the path that the browser sees) and {secret} (the file with the token that it asks for).

    ``package``: the Python package of the program; ``least``: its oldest version that is safe on a
    node with other users; ``reason``: the fault that older ones have. Older ones pass no smoke test
    and do not start, and `portal doctor` names them.
    """

    argv: ClassVar[tuple[str, ...]]
    package: ClassVar[str]
    least: ClassVar[str]
    reason: ClassVar[str]
    offered = True
    named = True

    def variables(self) -> dict[str, str]:
        program = {"title": self.title, "argv": [*self.guard(), *self.argv]}
        return {"PORTAL_PROGRAM": json.dumps(program), "JUPYTERHUB_DEFAULT_URL": PAGE}

    @classmethod
    def guard(cls) -> tuple[str, ...]:
        """Return the argv that fails with a sentence if the installed version is not safe, and
        runs the argv after it if it is."""
        return ("{python}", "-c", _GUARD, cls.title, cls.package, cls.least, cls.reason)
