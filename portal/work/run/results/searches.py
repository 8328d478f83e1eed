"""Searches of runs: their points ask for their parameters, one after the other.

All that a choice depends on is in the database, so a service that was killed goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from portal.errors import Conflict, NotFound, PortalError, StoreUnavailable
from portal.models.session.run import Run
from portal.models.session.search import ParameterValue, Search, SearchItem
from portal.store import Store
from portal.work.run.tables.points import PointKeys, RunPointTable
from portal.work.run.tables.runs import RunKey, RunTable
from portal.work.run.tables.searches import RunSearchTable

from .trials import best_of, choose, trials_of
from .turns import Turns

_REMEMBERED = 500  # searches


class RunSearches:
    """Searches of the runs in the database."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._searches: OrderedDict[RunKey, Search] = OrderedDict()
        # Points that start at the same moment must see each other's parameters. Two users: one
        # reads while the thread works for the other.
        self._turns = Turns(2)
        self._thread = ThreadPoolExecutor(1, "portal-search")
        self._choosing: dict[tuple[RunKey, int], asyncio.Task[dict[str, float]]] = {}

    @contextlib.asynccontextmanager
    async def storing(self, run: Run, search: Search | None) -> AsyncIterator[None]:
        """Store the search of a run that starts in the block; nothing is left of one that is
        refused. Raises Conflict if the user has one of this id; StoreUnavailable."""
        if search is None:
            yield
            return
        try:
            await self._store.table(RunSearchTable).add_search(_key(run), search)
        except Conflict:
            if await self._store.table(RunSearchTable).get(_key(run)) != search:
                raise  # else the request comes again (`RunStarts.begin`)
        try:
            yield
        except PortalError:
            with contextlib.suppress(StoreUnavailable):
                if await self._store.table(RunTable).get(run.user, run.id) is None:
                    await self._store.table(RunSearchTable).remove(_key(run))
            raise

    async def ask(self, run: Run, number: int) -> dict[str, ParameterValue]:
        """Return the parameters of a point: the same ones each time. Raises NotFound if the run has
        no search; StoreUnavailable."""
        search = await self._search(run)
        if search is None:
            raise NotFound("This run has no search.")
        key = _key(run)
        chosen = await self._store.table(RunSearchTable).trial(key, number)
        if chosen is None:
            choosing = self._choosing.get((key, number))
            if choosing is None:  # a point that asks again does not wait behind itself
                choosing = asyncio.create_task(self._choose(key, number, search))
                self._choosing[key, number] = choosing
                choosing.add_done_callback(lambda _: self._choosing.pop((key, number), None))
            chosen = await asyncio.shield(choosing)
        return search.values(chosen)

    async def _choose(self, key: RunKey, number: int, search: Search) -> dict[str, float]:
        table = self._store.table(RunSearchTable)
        async with self._turns.turn(key[0]):
            chosen = await table.trial(key, number)  # by a request that was lost meanwhile
            if chosen is not None:
                return chosen
            before = await table.trials(key)
            keys = await self._store.table(RunPointTable).keys(*key)
            trials = trials_of(search, before, keys)
            loop = asyncio.get_running_loop()
            new = await loop.run_in_executor(self._thread, choose, search, trials, number)
            return await table.choose(key, number, new)

    async def item(self, run: Run, keys: Sequence[PointKeys]) -> SearchItem | None:
        """Return the search of a run for its user; None without one. ``keys``: of its points.
        Raises StoreUnavailable."""
        search = await self._search(run)
        if search is None:
            return None
        trials = trials_of(search, await self._store.table(RunSearchTable).trials(_key(run)), keys)
        return SearchItem(
            parameters=tuple(parameter.name for parameter in search.parameters),
            metric=search.metric,
            direction=search.direction,
            best=best_of(search, trials),
        )

    async def _search(self, run: Run) -> Search | None:
        key = _key(run)
        search = self._searches.get(key) or await self._store.table(RunSearchTable).get(key)
        if search is not None:
            self._searches[key] = search
            self._searches.move_to_end(key)
            while len(self._searches) > _REMEMBERED:
                self._searches.popitem(last=False)
        return search


def _key(run: Run) -> RunKey:
    return (run.user, run.id)
