"""Kinds that open a program of their environment behind the session's login: each is data.

The session's server starts the program and redirects the browser to it
(portal_session/programs/); it has no login of its own that a user would see.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any, ClassVar

from ...models.catalog.program import ProgramDefinition
from . import safe_version
from .kind import Kind

_GUARD = Path(safe_version.__file__).read_text(encoding="utf-8")
PAGE = "/portal/program/"  # of portal_session, below the server's address


class ProgramKind(Kind):
    """Base of the kinds of programs; ``definition``: what is particular to one."""

    definition: ClassVar[ProgramDefinition]
    offered = True
    named = True

    def variables(self) -> dict[str, str]:
        return {"PORTAL_PROGRAM": json.dumps(self.for_session()), "JUPYTERHUB_DEFAULT_URL": PAGE}

    @classmethod
    def for_session(cls) -> dict[str, Any]:
        """Return the definition as the session's server reads it."""
        return {"title": cls.title, "argv": [*cls.guard(), *cls.definition.argv]}

    @classmethod
    def guard(cls) -> tuple[str, ...]:
        """Return the argv that fails with a sentence if the installed version is not safe, and
        runs the argv after it if it is."""
        program = cls.definition
        about = (program.title, program.software, program.least, program.reason)
        return ("{python}", "-c", _GUARD, *about)


@functools.cache
def program_kind(definition: ProgramDefinition) -> type[ProgramKind]:
    """Return the kind of a program, the same for the same definition."""
    return type(
        f"Program_{definition.name}",
        (ProgramKind,),
        {
            "__module__": __name__,
            "__doc__": definition.title,
            "name": definition.name,
            "title": definition.title,
            "definition": definition,
        },
    )


# marimo's server does not support Unix sockets: it requires its token.
MARIMO = ProgramDefinition(
    name="marimo",
    title="marimo",
    package="marimo",
    least="0.23.0",
    reason="CVE-2026-39987: its terminal asks for no token",
    argv=(
        *("{python}", "-m", "marimo", "edit", "--headless", "--skip-update-check"),
        *("--host", "127.0.0.1", "--port", "{port}", "--base-url", "{base}"),
        *("--token", "--token-password-file", "{secret}"),
    ),
)
# Without its own proxy to ports of the node, which would show other users' pages as the session's.
CODE_SERVER = ProgramDefinition(
    name="code-server",
    title="code-server",
    executable="code-server",
    least="4.99.4",
    reason="CVE-2025-47269: a link through its proxy takes the login along",
    argv=(
        *("code-server", "--socket", "{socket}", "--socket-mode", "600", "--auth", "none"),
        *("--disable-proxy", "--disable-telemetry", "--disable-update-check", "."),
    ),
)
BUILT_IN = (MARIMO, CODE_SERVER)
