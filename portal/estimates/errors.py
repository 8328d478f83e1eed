"""How wrong past estimates were, by partition and by whose they were. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from portal.models.session.estimate import EstimateError
from portal.store.sessions.estimates import Outcome

TEN_MINUTES = 600.0


def errors(outcomes: Iterable[Outcome]) -> list[EstimateError]:
    """One row for each partition and basis, the most sessions first."""
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for one in outcomes:
        key = (str(one.options.get("partition") or ""), one.source)
        groups.setdefault(key, []).append(one)
    rows = [error_of(some, *key) for key, some in groups.items()]
    return sorted(rows, key=lambda row: (-row.sessions, row.partition, row.basis))


def error_of(outcomes: Sequence[Outcome], partition: str = "", basis: str = "") -> EstimateError:
    """One row about all of ``outcomes``."""
    late = [
        # What was expected before the submission meant "now".
        one.started_at - max(one.expected_at, one.submitted_at)
        for one in outcomes
        if one.expected_at is not None
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
