"""The base of kinds that open a program of their environment behind the session's login.

The session's server starts it and redirects the browser to it (portal_session/program/program.py);
it has no login of its own that a person would see.
"""

from __future__ import annotations

import json
from typing import ClassVar

from .kind import Kind

PAGE = "/portal/program/"  # of portal_session, below the server's address


class ProgramKind(Kind):
    """Kind whose ``argv`` runs in the environment, with {python}, {port} (of 127.0.0.1), {base}
    (the path that the browser sees) and {secret} (the file with the token that it asks for)."""

    argv: ClassVar[tuple[str, ...]]
    offered = True
    named = True

    def variables(self) -> dict[str, str]:
        program = {"title": self.title, "argv": list(self.argv)}
        return {"PORTAL_PROGRAM": json.dumps(program), "JUPYTERHUB_DEFAULT_URL": PAGE}
