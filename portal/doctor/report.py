"""Report of the findings: text for people, or JSON for programs."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence

from portal import __version__

from .finding import Finding, Level

_MARKS = {
    Level.OK: ("ok", "\033[32m"),
    Level.WARNING: ("warning", "\033[33m"),
    Level.FAILURE: ("FAILURE", "\033[31m"),
    Level.SKIPPED: ("skipped", "\033[2m"),
}
_INDENT = " " * 10


def lines(finding: Finding, width: int = 100, colour: bool = False) -> Iterable[str]:
    """Yield the lines of one finding: its level and title, what was found, and the fix."""
    word, start = _MARKS[finding.level]
    mark = f"{word:<8}"
    if colour:
        mark = f"{start}{mark}\033[0m"
    yield f"{mark}  {finding.title}"
    parts = [finding.found]
    if finding.mend:
        parts.append(f"→ {finding.mend}")
    for part in parts:
        # Commands and paths are copied from here: long words are not cut.
        yield from textwrap.wrap(
            part,
            max(width, 40),
            initial_indent=_INDENT,
            subsequent_indent=_INDENT + ("  " if part.startswith("→") else ""),
            break_long_words=False,
            break_on_hyphens=False,
        )


def summary(findings: Sequence[Finding]) -> str:
    """Count the findings by level: "1 failure, 2 warnings, 10 ok, 3 skipped"."""
    count = Counter(finding.level for finding in findings)

    def words(level: Level, singular: str, plural: str) -> str:
        return f"{count[level]} {singular if count[level] == 1 else plural}"

    return ", ".join(
        (
            words(Level.FAILURE, "failure", "failures"),
            words(Level.WARNING, "warning", "warnings"),
            words(Level.OK, "ok", "ok"),
            words(Level.SKIPPED, "skipped", "skipped"),
        )
    )


def as_json(findings: Sequence[Finding]) -> str:
    """Return ``{"version": …, "ok": bool, "findings": […]}``; ``ok`` is false if there is a
    failure."""
    return json.dumps(
        {
            "version": __version__,
            "ok": not failed(findings),
            "findings": [finding.model_dump(mode="json") for finding in findings],
        },
        indent=2,
        ensure_ascii=False,
    )


def failed(findings: Sequence[Finding]) -> bool:
    return any(finding.level is Level.FAILURE for finding in findings)
