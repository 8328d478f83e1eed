"""Demands: how many replicas each endpoint should have, by what the gateway says over time."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from portal.store import Store

from ..gateway import GatewayState
from ..tables import EndpointTable
from .facts import Seen
from .handover import ReplicaState
from .scaling import Bounds, Scale, distributed

_ACTIVE = 60.0  # seconds between two writings of the last request's time


class Demands:
    """Numbers of replicas of all endpoints. What is remembered is lost with the service, which
    only makes them shrink later."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._scales: dict[str, Scale] = {}
        self._totals: dict[str, int] = {}
        self._requests: dict[str, int] = {}
        self._active: dict[str, float] = {}
        self._woken: set[str] = set()  # by their owners

    def wake(self, name: str) -> None:
        """Have an endpoint that sleeps get a replica, as a request would."""
        self._woken.add(name)

    def forget_but(self, names: Collection[str]) -> None:
        """Forget the endpoints that are not among these."""
        for memory in (self._scales, self._totals, self._requests, self._active):
            for name in memory.keys() - set(names):
                del memory[name]

    def wanted(self, seen: Seen) -> Mapping[int, int]:
        """Return the number of replicas by version, as it was at the last look."""
        total = self._totals.get(seen.endpoint.name, 0)
        return distributed(total, shares(seen))

    async def wanted_now(
        self, seen: Seen, state: GatewayState | None, now: float
    ) -> Mapping[int, int]:
        """Return the number of replicas by version at ``now`` (Unix seconds)."""
        endpoint, name = seen.endpoint, seen.endpoint.name
        demand = state.demand(name) if state is not None else None
        active = max(endpoint.active_at, endpoint.created_at, self._active.get(name, 0.0))
        if state is not None and demand is not None:
            requests = state.requests(name)
            if demand.in_flight or demand.waiting or requests > self._requests.get(name, requests):
                active = now
            self._requests[name] = requests
            if active - endpoint.active_at >= _ACTIVE:
                await self._store.table(EndpointTable).change(name, active_at=active)
            self._active[name] = active
        bounds = Bounds(endpoint.least, endpoint.most, endpoint.target, float(endpoint.idle))
        current = self._totals.get(name)
        if current is None:
            living = [each for each in seen.replicas if each.state is not ReplicaState.DRAINING]
            ids = {each.id for each in living}
            current = sum(each.successor_of not in ids for each in living)
        if name in self._woken:
            self._woken.discard(name)
            current, active = max(1, current), now
            self._active[name] = now
        scale = self._scales.setdefault(name, Scale())
        self._totals[name] = scale.wanted(demand, current, bounds, now, active)
        return self.wanted(seen)


def shares(seen: Seen) -> dict[int, int]:
    """Return the parts of the traffic by version."""
    return {int(number): share for number, share in seen.endpoint.shares.items()}
