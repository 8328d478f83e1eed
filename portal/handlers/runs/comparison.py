"""Comparison of up to four runs of the user."""

from __future__ import annotations

import asyncio

from portal.models.session.run import RunId
from portal.sessions.runs.comparison import RunComparison, compared

from ..base.endpoint import Operation, Query
from .runs import RunAction


class ComparisonQuery(Query):
    """Ids of the runs to compare: two at least."""

    a: RunId
    b: RunId
    c: RunId | None = None
    d: RunId | None = None

    @property
    def ids(self) -> list[str]:
        """Ids of the runs, each once, in their order."""
        given = (self.a, self.b, self.c, self.d)
        return list(dict.fromkeys(id_ for id_ in given if id_ is not None))


class RunsComparison(RunAction):
    """Comparison of runs of the user."""

    path = "run-comparison"

    @Operation("Compare up to four of your runs.", query=ComparisonQuery)
    async def on_get(self) -> RunComparison:
        """Return their facts and parameters that differ, and the best point of each metric."""
        runs = [await self.seen(id_) for id_ in self.query.ids]
        table = self.parts.store.run_points
        keys = [await table.keys(run.user, run.id) for run in runs]
        return await asyncio.to_thread(compared, await self.items(runs), keys)


ENDPOINTS = (RunsComparison,)
