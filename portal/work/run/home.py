"""Home's part of runs: those in progress with their best metric, and those that have ended."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from portal.cache import SharedAnswers
from portal.models.home import Since
from portal.models.person import Person
from portal.models.session.run import PointState, Run
from portal.work.run.results.item import RunItem, run_item
from portal.work.run.results.list_best import ListBest, best_points
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.runs import RunKey, RunTable

if TYPE_CHECKING:
    from portal.assembly import Services

_MOST = 6  # runs
_AGE = 60.0  # seconds for which a best point is kept: it is found among all points of its run
_KEPT = 1000  # runs whose best point is kept


class HomeRun(NamedTuple):
    """Run with its best point; None while it has none. ``done``: the number of points that have
    ended."""

    item: RunItem
    best: ListBest | None = None

    @property
    def done(self) -> int:
        counts = self.item.counts
        return counts.succeeded + counts.failed + counts.lost


class HomeRuns:
    """Runs of a user."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._best = SharedAnswers[RunKey, ListBest | None](
            self._best_of, most=_KEPT, ttl=lambda _: _AGE
        )

    async def load(self, person: Person, since: Since) -> Mapping[str, Any] | None:
        """Return the runs that have not ended, then those that have since the last visit; None
        without any."""
        store = self._services.store
        runs = await store.table(RunTable).unended(person.name, await since(), _MOST)
        if not runs:
            return None
        counts = await store.table(RunPointTable).counts(person.name, [run.id for run in runs])
        shown = (self._shown(run, counts.get(run.id, {})) for run in runs)
        return {"runs": await asyncio.gather(*shown)}

    async def _shown(self, run: Run, counts: Mapping[PointState, int]) -> HomeRun:
        view = self._services.dashboard.view
        of_user = (
            record
            for record in (view.sessions.values() if view else ())
            if (record.user, record.server) == (run.user, run.server)
        )
        item = run_item(run, counts, next(of_user, None))
        return HomeRun(item, await self._best.for_key((run.user, run.id)).get())

    async def _best_of(self, run: RunKey) -> ListBest | None:
        user, id_ = run
        return (await best_points(self._services.store, user, [id_])).get(id_)
