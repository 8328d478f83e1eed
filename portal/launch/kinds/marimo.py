"""marimo, the notebook of that name (https://marimo.io), in the environments that have it.

Its server does not support Unix sockets: it listens on loopback and requires its token, which it
reads from a file and which the session's proxy alone adds.
"""

from __future__ import annotations

from .program import ProgramKind


class Marimo(ProgramKind):
    """marimo, opened in the person's home."""

    name = "marimo"
    title = "marimo"
    package = "marimo"
    least = "0.23.0"
    reason = "CVE-2026-39987: its terminal asks for no token"
    argv = (
        *("{python}", "-m", "marimo", "edit", "--headless", "--skip-update-check"),
        *("--host", "127.0.0.1", "--port", "{port}", "--base-url", "{base}"),
        *("--token", "--token-password-file", "{secret}"),
    )
