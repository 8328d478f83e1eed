"""Collector: the loop that asks the gateway for its counters, and stores what they grew by."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from portal.periodic import Periodic
from portal.store import Store

from .figures import KEPT, EndpointFigures, EndpointFigureTable, counts_of
from .gateway import Gateway, GatewayState
from .models import EndpointReplica
from .tables import EndpointReplicaTable, EndpointTable, EndpointVersionTable

_EVERY = 60.0  # seconds
_PRUNE = 3600.0  # seconds between two deletions of what is old
_COUNTERS = ("requests", "errors", "tokens")


class _Look(NamedTuple):
    at: float
    began: float  # of the gateway: its counters begin at 0
    models: Mapping[str, Mapping[str, Any]]


class FigureCollector:
    """Loop of the service for the figures of all endpoints."""

    def __init__(self, store: Store, gateway: Gateway, log: logging.Logger) -> None:
        self._store, self._gateway, self._log = store, gateway, log
        self._last: _Look | None = None
        self._pruned = 0.0

    async def run(self) -> None:
        """Collect until cancelled."""
        if self._gateway.offered:
            await Periodic(
                "Collecting the figures of endpoints",
                lambda: self.collect(time.time()),
                _EVERY,
                self._log,
            ).run()

    async def collect(self, now: float) -> None:
        """Store a row for each endpoint that did something since the last look, which this service
        made. Raises StoreUnavailable."""
        if now - self._pruned >= _PRUNE:
            await self._store.table(EndpointFigureTable).prune(now - KEPT)
            self._pruned = now
        state = await self._gateway.state()
        if state is None:
            return  # its counters go on; the next row has a longer time
        last, self._last = self._last, _look(state, now)
        if last is None or now <= last.at:
            return  # what the counters had before is not known
        same = last.began == self._last.began
        replicas = await self._replicas()
        rows = []
        for endpoint in await self._store.table(EndpointTable).every():
            before = last.models.get(endpoint.name, {}) if same else {}
            own = replicas.get(endpoint.name, ())
            row = _row(endpoint.name, before, self._last.models.get(endpoint.name, {}), own)
            if any((row.requests, row.in_flight, row.waiting, row.replicas)):
                rows.append(row.model_copy(update={"at": now, "seconds": now - last.at}))
        await self._store.table(EndpointFigureTable).add_figures(rows)

    async def _replicas(self) -> dict[str, list[tuple[EndpointReplica, int]]]:
        """Return the replicas whose jobs run, each with its GPUs, by endpoint."""
        living = await self._store.table(EndpointReplicaTable).living()
        found: dict[str, list[tuple[EndpointReplica, int]]] = {}
        gpus: dict[tuple[str, int], int] = {}
        for name in {row.endpoint for row in living}:
            for version in await self._store.table(EndpointVersionTable).of_endpoint(name):
                gpus[name, version.number] = int(version.resources.get("gpus") or 0)
        for row in living:
            if row.waited is not None:  # Slurm has started it
                found.setdefault(row.endpoint, []).append(
                    (row, gpus.get((row.endpoint, row.version), 0))
                )
        return found


def _look(state: GatewayState, now: float) -> _Look:
    return _Look(now, state.began, state.models)


def _row(
    name: str,
    before: Mapping[str, Any],
    model: Mapping[str, Any],
    replicas: Sequence[tuple[EndpointReplica, int]],
) -> EndpointFigures:
    """Return what an endpoint's counters grew by. A model that was away for a while begins anew at
    the gateway, so a counter that has fallen counts from 0."""

    def grown(former: int, number: int) -> int:
        return number - former if number >= former else number

    counts = {key: grown(int(before.get(key) or 0), int(model.get(key) or 0)) for key in _COUNTERS}
    pairs = zip(counts_of(before.get("latency")), counts_of(model.get("latency")), strict=True)
    return EndpointFigures(
        endpoint=name,
        at=0.0,
        seconds=0.0,
        **counts,
        in_flight=int(model.get("in_flight") or 0),
        waiting=int(model.get("waiting") or 0),
        ready=sum(row.ready_at is not None and row.draining_at is None for row, _ in replicas),
        replicas=len(replicas),
        gpus=sum(gpus for _, gpus in replicas),
        latencies=tuple(grown(*pair) for pair in pairs),
    )
