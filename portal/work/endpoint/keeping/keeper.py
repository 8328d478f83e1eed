"""Keeper: the loop that launches, tries, drains and retires the replicas of endpoints.

What should be is in the database, and what is there is in the Hub's records of sessions and in the
gateway's state. What the keeper remembers only makes it slower after a restart of the service.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from portal.dashboard import ClusterView
from portal.errors import NotAllowed, StoreUnavailable
from portal.models.session.replica_set import ReplicaSet
from portal.periodic import Periodic
from portal.store import Store

from ..gateway import Gateway, GatewayAway, GatewayState
from ..models import Endpoint
from ..tables import EndpointReplicaTable, EndpointTable
from .demands import Demands, shares
from .examples import Examples
from .facts import Facts, Seen
from .failures import Failures, given_up
from .handover import Launch, steps
from .launches import Launches
from .notices import EndpointNotices
from .owners import words_of
from .routing import routes
from .spaces import EndpointSpaces

_EVERY = 2.0  # seconds
_AWAY = 5.0  # seconds until a gateway that does not answer is asked again


class Keeper:
    """Loop of the service for all endpoints. An event ``changed`` makes it look at once. ``gone``
    returns the owners whose endpoints get no replicas; ``spaces``: the projects that they are for.
    """

    def __init__(
        self,
        store: Store,
        gateway: Gateway,
        launches: Launches,
        view: Callable[[], ClusterView | None],
        notices: EndpointNotices,
        gone: Callable[[], Collection[str]],
        spaces: EndpointSpaces,
        log: logging.Logger,
    ) -> None:
        self._store, self._gateway, self._launches = store, gateway, launches
        self._spaces = spaces
        self._view, self._notices, self._gone, self._log = view, notices, gone, log
        self.changed = asyncio.Event()
        self._failures = Failures(store)
        self._facts = Facts(store, view, self._failures, launches)
        self._demands = Demands(store)
        self._examples = Examples(
            store, gateway, self._facts, self._failures, self.changed.set, log
        )
        self._told: dict[str, Any] = {}  # routes by endpoint

    async def run(self) -> None:
        """Keep all endpoints until cancelled."""
        if self._gateway.offered:
            await Periodic(
                "The keeper of endpoints",
                lambda: self.keep(time.time()),
                _EVERY,
                self._log,
                wake=self.changed,
            ).run()

    def wake(self, name: str) -> None:
        """Have an endpoint that sleeps launch a replica, as a request would."""
        self._demands.wake(name)
        self.changed.set()

    async def listen(self) -> None:
        """Look at once when a request waits at a model without replicas, until cancelled."""
        known = 0
        while self._gateway.offered:
            now = await self._gateway.changes(known)
            if now is None:
                await asyncio.sleep(_AWAY)
            elif now != known:
                known = now
                self.changed.set()

    async def keep(self, now: float) -> None:
        """Look at all endpoints at ``now`` (Unix seconds), and do what is to be done. Raises
        Unavailable: the database, or the gateway's directory."""
        if self._view() is None:
            return  # the last routes hold until Slurm's nodes are known
        endpoints = await self._store.table(EndpointTable).every()
        rows = await self._store.table(EndpointReplicaTable).living()
        sets = await self._launches.sets()
        state = await self._gateway.state() if endpoints else None
        records = await self._facts.records(rows)
        owners = {endpoint.name: endpoint.user for endpoint in endpoints}
        known = {row.id for row in rows if owners.get(row.endpoint) == row.user}
        for endpoint in endpoints:
            own = [row for row in rows if row.endpoint == endpoint.name and row.id in known]
            try:
                seen = await self._facts.seen(endpoint, own, records, sets, state, now)
                await self._step(seen, sets, state, now)
                people = await self._spaces.people(endpoint)
                self._told[endpoint.name] = self._routes(seen, sets, people, now)
            except StoreUnavailable:
                raise
            except Exception:  # one endpoint must not stop those of others
                self._log.exception("The endpoint %s of %s", endpoint.name, endpoint.user)
        for row in rows:
            if row.id not in known:  # its endpoint was deleted
                await self._store.table(EndpointReplicaTable).remove(row.user, row.id)
        for each in sets.values():
            if each.id not in known:
                await self._launches.retire(each)
        self._demands.forget_but(owners)
        self._examples.forget_but(known)
        self._told = {name: told for name, told in self._told.items() if name in owners}
        if len(self._told) == len(owners):  # else the last routes hold
            await self._gateway.write(self._told)

    async def _step(
        self,
        seen: Seen,
        sets: Mapping[str, ReplicaSet],
        state: GatewayState | None,
        now: float,
    ) -> None:
        """Do what is to be done for one endpoint."""
        endpoint, rows = seen.endpoint, {row.id: row for row in seen.rows}
        gone = endpoint.user in self._gone()
        barred, over = await self._spaces.barred(endpoint, now)
        wanted = {} if gone or over else await self._demands.wanted_now(seen, state, now)
        todo = steps(
            wanted,
            seen.replicas,
            now,
            load=seen.load,
            wait=seen.wait,
            longest=float(endpoint.limits.seconds),
        )
        table = self._store.table(EndpointReplicaTable)
        for id_ in (*todo.drain, *todo.retire):
            if rows[id_].draining_at is None:
                await table.change(rows[id_].user, id_, draining_at=now)
        for id_ in todo.retire:
            if id_ in sets:
                await self._launches.retire(sets[id_])
        await self._examples.begin(seen, now)
        await self._notices.send_late(endpoint, seen.replicas, rows, seen.load, now)
        refused = [sets[id_].problem for id_ in _refused(seen, sets)]
        problem = "" if barred else await self._launch(seen, todo.launch, now)
        problem = barred or problem or next(iter(refused), "")
        await self._complain(endpoint, words_of(endpoint.user) if gone else problem)

    async def _launch(self, seen: Seen, launches: Sequence[Launch], now: float) -> str:
        """Launch replicas; return why one of them was not, or ""."""
        ids = {row.id for row in seen.rows}
        problem = ""
        # A predecessor and its successor count once against the owner's limit.
        twice = sum(row.draining_at is not None or row.successor_of in ids for row in seen.rows)
        for launch in launches:
            version = seen.versions.get(launch.version)
            if version is None:
                continue
            if words := given_up(version):
                problem = words
            elif now >= self._failures.next_launch(version):
                twice += bool(launch.successor_of)
                try:
                    await self._launches.launch(seen.endpoint, version, launch, twice, now)
                    self.changed.set()  # the routes say when it is expected
                except (NotAllowed, GatewayAway) as error:
                    problem = error.message
        return problem

    async def _complain(self, endpoint: Endpoint, problem: str) -> None:
        if problem != endpoint.problem:
            if problem:
                self._log.warning("Endpoint %s of %s: %s", endpoint.name, endpoint.user, problem)
            await self._store.table(EndpointTable).change(endpoint.name, problem=problem)

    def _routes(
        self, seen: Seen, sets: Mapping[str, ReplicaSet], people: Collection[str], now: float
    ) -> dict[str, Any]:
        """Return what the gateway is told of an endpoint."""
        addresses = {
            row.id: self._facts.address(row, seen.records.get(row.id)) for row in seen.rows
        }
        jobs = {row.id: self._facts.job(row) for row in seen.rows}
        wanted, refused = self._demands.wanted(seen), _refused(seen, sets)
        return routes(seen, shares(seen), wanted, addresses, jobs, refused, people, now)


def _refused(seen: Seen, sets: Mapping[str, ReplicaSet]) -> list[str]:
    """Return the ids of replicas whose launch was refused, by a budget or another limit."""
    return [row.id for row in seen.rows if row.id in sets and sets[row.id].problem]
