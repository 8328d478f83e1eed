"""Causes of a server's failure, as found at the end of its log: those that sites meet."""

from __future__ import annotations

import re
from collections.abc import Callable

from ..models.words import shortened

_QUOTED = 200  # characters of a log in a sentence
_WHOLE = 600  # of an error of Apptainer, which names the cause last


def _quote(match: re.Match[str], group: int = 1) -> str:
    return shortened(match[group].strip().rstrip("."), _QUOTED)


# The first match counts. A log is its owner's text: quotes from it are shown as text.
_CAUSES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (
        re.compile(r"(No space left on device|Disk quota exceeded)"),
        lambda match: f"A file system is full ({_quote(match)}): remove files, then launch again",
    ),
    (
        re.compile(r"No module named '?(portal_session\.job_kernels)\b"),
        lambda match: (
            "The environment's portal-session is too old for kernels in jobs of their own; an "
            "admin must build or update the environment"
        ),
    ),
    (
        re.compile(r"No module named '?(portal_session\.runs)\b"),
        lambda match: (
            "The environment's portal-session is too old for runs; an admin must build or update "
            "the environment"
        ),
    ),
    (
        re.compile(r"No module named '?(portal_session|jupyterlab|jupyter_server|jupyterhub)\b"),
        lambda match: f"The environment lacks the Python package '{_quote(match)}'",
    ),
    (
        re.compile(r"^The module '([^'\n]*)' could not be loaded", re.MULTILINE),
        lambda match: f"The module '{_quote(match)}' could not be loaded",
    ),
    (
        re.compile(r"^The modules could not be loaded: (.*)$", re.MULTILINE),
        lambda match: f"The modules could not be loaded: {_quote(match)}",
    ),
    (
        re.compile(r"^The image has no good signature: (.*)$", re.MULTILINE),
        lambda match: (
            f"The signature of its image is missing or broken ({_quote(match)}); an admin "
            "must build or sign the image again"
        ),
    ),
    (
        re.compile(r"^The (\w+)'s folder leads elsewhere: (.*)$", re.MULTILINE),
        lambda match: (
            f"The {match[1]}'s folder is a link, or is in one ({_quote(match, 2)}). It must be a "
            "real folder, because others may join the session. Rename the link"
        ),
    ),
    (
        re.compile(r"^The portal's folder is no folder: (.*)$", re.MULTILINE),
        lambda match: (
            f"The folder for the portal's own files is a broken link or no folder ({_quote(match)})"
            ". Remove or rename it, or restore what it leads to, then launch again"
        ),
    ),
    (
        # bash of deploy/session.sh; its own path stands before "line".
        re.compile(
            r": line \d+: (/[^\n:]*): (?:cannot execute: )?[^\n]*(?:No such file|not found)"
        ),
        lambda match: f"The program is not on this node: {_quote(match)}",
    ),
    (
        re.compile(r": line \d+: (/[^\n:]*): [^\n]*Permission denied"),
        lambda match: f"The program is not executable: {_quote(match)}",
    ),
    (
        re.compile(r"^FATAL:\s+(.*)$", re.MULTILINE),
        lambda match: f"Apptainer says: {shortened(match[1].strip().rstrip('.'), _WHOLE)}",
    ),
)


def cause_of(log: str) -> str:
    """Return " A sentence." with the cause that the end of a log names; "" if none is known."""
    for pattern, describe in _CAUSES:
        match = pattern.search(log)
        if match:
            return f" {describe(match)}."
    return ""
