"""The base of kinds that open a program of their environment behind the session's login.

The session's server starts it and leads the browser to it (portal_session/program/program.py); a
person sees no login of its own.
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
        told = {"title": self.title, "argv": list(self.argv)}
        return {"PORTAL_PROGRAM": json.dumps(told), "JUPYTERHUB_DEFAULT_URL": PAGE}
