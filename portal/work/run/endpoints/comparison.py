"""Comparison of up to four runs of the user."""

from __future__ import annotations

import asyncio
from typing import Annotated

from pydantic import Field, StringConstraints

from portal.handlers.base.endpoint import Operation, Query
from portal.models.session.chosen_id import ID
from portal.work.run.results.comparison import RunComparison, compared
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.searches import RunSearchTable

from .runs import RunAction

ComparedRun = Annotated[
    str,
    StringConstraints(pattern=rf"^([^\s\x00-\x1f\x7f,:/*]{{1,255}}/)?{ID}$"),
    Field(
        description="Id of a run; of one that is shared with you, its user, a slash and its id.",
        examples=["5e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162"],
    ),
]


class ComparisonQuery(Query):
    """Runs to compare: two at least."""

    a: ComparedRun
    b: ComparedRun
    c: ComparedRun | None = None
    d: ComparedRun | None = None

    @property
    def keys(self) -> list[tuple[str, str]]:
        """User ("" for oneself) and id of the runs, each once, in their order."""
        given = (self.a, self.b, self.c, self.d)
        parts = (run.rpartition("/") for run in given if run is not None)
        return list(dict.fromkeys((owner, id_) for owner, _, id_ in parts))


class RunsComparison(RunAction):
    """Comparison of runs of the user."""

    path = "run-comparison"

    @Operation("Compare up to four of your runs.", query=ComparisonQuery)
    async def on_get(self) -> RunComparison:
        """Return their facts and parameters that differ, and the best point of each metric."""
        runs = [await self.seen(id_, owner) for owner, id_ in self.query.keys]
        table = self.parts.store.table(RunPointTable)
        keys = [await table.keys(run.user, run.id) for run in runs]
        of = self.parts.store.table(RunSearchTable).get
        searches = [await of((run.user, run.id)) for run in runs]
        return await asyncio.to_thread(compared, await self.items(runs), keys, searches)


ENDPOINTS = (RunsComparison,)
