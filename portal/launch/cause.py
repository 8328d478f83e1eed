"""What the end of a log says about why a server could not run: the causes that sites meet."""

from __future__ import annotations

import re
from collections.abc import Callable

_QUOTED = 200  # characters of a log in a sentence


def _quote(found: re.Match[str]) -> str:
    text = found[1].strip().rstrip(".")
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…"


# The first that is found counts. A log is its owner's text: what is quoted is shown as text.
_CAUSES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (
        re.compile(r"(No space left on device|Disk quota exceeded)"),
        lambda found: f"A file system is full ({_quote(found)}): remove files, then launch again",
    ),
    (
        re.compile(r"No module named '?(portal_session|jupyterlab|jupyter_server|jupyterhub)\b"),
        lambda found: f"The environment lacks the Python package '{_quote(found)}'",
    ),
    (
        re.compile(r"^The module '([^'\n]*)' could not be loaded", re.MULTILINE),
        lambda found: f"The module '{_quote(found)}' could not be loaded",
    ),
    (
        re.compile(r"^The modules could not be loaded: (.*)$", re.MULTILINE),
        lambda found: f"The modules could not be loaded: {_quote(found)}",
    ),
    (
        re.compile(r"^The image has no good signature: (.*)$", re.MULTILINE),
        lambda found: (
            f"The signature of its image is missing or broken ({_quote(found)}); an admin has to "
            "build or sign it again"
        ),
    ),
    (
        re.compile(r"^The course's folder leads elsewhere: (.*)$", re.MULTILINE),
        lambda found: (
            f"The course's folder is a link, or is in one ({_quote(found)}): others may be let "
            "into the session, so it must be a folder of its own. Rename the link"
        ),
    ),
    (
        # bash of deploy/session.sh; its own path stands before "line".
        re.compile(
            r": line \d+: (/[^\n:]*): (?:cannot execute: )?[^\n]*(?:No such file|not found)"
        ),
        lambda found: f"Its program is not on this node: {_quote(found)}",
    ),
    (
        re.compile(r": line \d+: (/[^\n:]*): [^\n]*Permission denied"),
        lambda found: f"Its program may not be run: {_quote(found)}",
    ),
    (
        re.compile(r"^FATAL:\s+(.*)$", re.MULTILINE),
        lambda found: f"Apptainer says: {_quote(found)}",
    ),
)


def cause_of(log: str) -> str:
    """ " A sentence." with the cause that the end of a log names; "" where none is known."""
    for pattern, words in _CAUSES:
        found = pattern.search(log)
        if found:
            return f" {words(found)}."
    return ""
