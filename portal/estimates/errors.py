"""Errors of past estimates, by partition and by their source. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from portal.models.session.estimate import EstimateError
from portal.store.sessions.estimates import Outcome

TEN_MINUTES = 600.0


def errors(outcomes: Iterable[Outcome]) -> list[EstimateError]:
    """Return a row for each partition and basis, most sessions first."""
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        key = (str(outcome.options.get("partition") or ""), outcome.source)
        groups.setdefault(key, []).append(outcome)
    rows = [error_of(group, *key) for key, group in groups.items()]
    return sorted(rows, key=lambda row: (-row.sessions, row.partition, row.basis))


def error_of(outcomes: Sequence[Outcome], partition: str = "", basis: str = "") -> EstimateError:
    """Return a single row for all of ``outcomes``."""
    late = [
        # An expected start before the submission meant "now".
        outcome.started_at - max(outcome.expected_at, outcome.submitted_at)
        for outcome in outcomes
        if outcome.expected_at is not None
    ]
    sizes = [abs(seconds) for seconds in late]
    return EstimateError(
        partition=partition,
        basis=basis,
        sessions=len(outcomes),
        unknown=len(outcomes) - len(late),
        median=statistics.median(late) if late else None,
        median_absolute=statistics.median(sizes) if sizes else None,
        within_ten_minutes=(
            sum(size <= TEN_MINUTES for size in sizes) / len(sizes) if sizes else None
        ),
    )
