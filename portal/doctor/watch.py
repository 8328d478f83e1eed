"""Watch of a site: the checks again and again, and a line for each that changes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from .finding import Finding, Level

_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")  # free bytes and ages differ at each look


class Changes:
    """Findings of the last look, by which the next one is told."""

    def __init__(self) -> None:
        self._last: dict[str, Finding] = {}

    def since_last(self, findings: Sequence[Finding]) -> Iterator[tuple[Finding, Level | None]]:
        """Yield what is new since the last look, with the level that it had; at the first look,
        what is not well. A finding that only tells other numbers is not new."""
        for finding in findings:
            last = self._last.get(finding.id)
            self._last[finding.id] = finding
            if last is None:
                if finding.level in (Level.WARNING, Level.FAILURE):
                    yield finding, None
            elif finding.level is not last.level or (
                finding.level is not Level.OK and _bare(finding) != _bare(last)
            ):
                yield finding, last.level


def _bare(finding: Finding) -> str:
    return _NUMBER.sub("#", finding.found)


def lines(
    changes: Iterable[tuple[Finding, Level | None]], moment: datetime, *, as_json: bool
) -> Iterator[str]:
    """Yield one line for each change: text, or a JSON object."""
    at = moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    for finding, was in changes:
        if as_json:
            yield json.dumps({"time": at, **finding.model_dump(mode="json"), "was": was})
        else:
            mend = f" → {finding.mend}" if finding.mend else ""
            text = f"{at} {finding.level.value:<7} {finding.id}: {finding.found}{mend}"
            yield " ".join(text.split("\n"))
