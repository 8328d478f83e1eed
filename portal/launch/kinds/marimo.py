"""marimo, the notebook of that name (https://marimo.io), in the environments that have it.

Its server knows no Unix socket: it listens on loopback and asks for its token, which it reads from
a file and which the session's proxy alone adds.
"""

from __future__ import annotations

from .program import ProgramKind


class Marimo(ProgramKind):
    """Opens in the person's home."""

    name = "marimo"
    title = "marimo"
    argv = (
        *("{python}", "-m", "marimo", "edit", "--headless", "--skip-update-check"),
        *("--host", "127.0.0.1", "--port", "{port}", "--base-url", "{base}"),
        *("--token", "--token-password-file", "{secret}"),
    )
