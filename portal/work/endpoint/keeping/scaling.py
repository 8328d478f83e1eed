"""Scale: how many replicas an endpoint should have, by the requests that it gets. No I/O."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

WINDOW = 300.0  # seconds for which fewer replicas must have been enough before one is retired
_HEADROOM = 0.8  # of the target, which the replicas that stay may reach


class Demand(NamedTuple):
    """Requests of an endpoint that are answered at the moment, and that wait for a replica."""

    in_flight: int = 0
    waiting: int = 0


class Bounds(NamedTuple):
    """Owner's limits: the least and most replicas; ``target``: requests for one replica at a time;
    ``idle``: seconds without a request after which none is kept, if ``least`` is 0."""

    least: int
    most: int
    target: int
    idle: float


class Scale:
    """Number of replicas of one endpoint over time. It grows at once, and shrinks slowly; what it
    remembers is lost with the service, which only makes it shrink later."""

    def __init__(self) -> None:
        self._needed: deque[tuple[float, int]] = deque()
        self._since: float | None = None

    def wanted(
        self, demand: Demand | None, current: int, bounds: Bounds, now: float, active_at: float
    ) -> int:
        """Return the number of replicas at ``now``. ``demand`` None: the gateway does not say, so
        the number stays; ``active_at``: time of the last request. Times are Unix seconds."""
        kept = max(bounds.least, min(current, bounds.most))
        if demand is None:
            return kept
        requests = demand.in_flight + demand.waiting
        self._since = now if self._since is None else self._since
        self._needed.append((now, math.ceil(requests / (bounds.target * _HEADROOM))))
        while self._needed[0][0] < now - WINDOW:
            self._needed.popleft()
        needed = math.ceil(requests / bounds.target)
        if needed > current:
            return max(bounds.least, min(needed, bounds.most))
        if requests == 0 and now - active_at >= bounds.idle:
            return bounds.least
        if now - self._since < WINDOW:
            return kept
        enough = max(number for _, number in self._needed)
        # The last one sleeps after its idle time only.
        floor = max(bounds.least, min(1, current))
        return max(floor, min(kept, enough))


def distributed(total: int, shares: Mapping[int, int]) -> dict[int, int]:
    """Return the number of replicas of each version for ``shares`` of the traffic, by version. Each
    version with a share has one at least, so there can be more than ``total`` of small ones."""
    positive = {version: share for version, share in shares.items() if share > 0}
    if not total or not positive:
        return {}
    whole = sum(positive.values())
    exact = {version: total * share / whole for version, share in positive.items()}
    numbers = {version: max(1, math.floor(value)) for version, value in exact.items()}
    left = total - sum(numbers.values())
    by_rest = sorted(exact, key=lambda version: (numbers[version] - exact[version], -version))
    for version in by_rest[: max(0, left)]:
        numbers[version] += 1
    return numbers


def with_share(shares: Mapping[int, int], version: int, share: int) -> dict[int, int]:
    """Return the shares once ``version`` has ``share`` percent of the traffic: the others keep
    their proportions, and those that had any keep one percent at least unless it gets all."""
    others = {other: part for other, part in shares.items() if other != version and part > 0}
    whole = sum(others.values())
    left = 100 - share
    kept = {other: max(1, round(left * part / whole)) for other, part in others.items() if left}
    return {**kept, version: share} if share or not kept else kept
