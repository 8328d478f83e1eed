"""Values of a run's points: parameters and metrics, for plots of all of them."""

from __future__ import annotations

import asyncio
from typing import Annotated

from pydantic import Field

from portal.handlers.base.endpoint import Operation
from portal.work.run.results.values import RunValues, run_values
from portal.work.run.tables.points import RunPointTable

from .runs import RUN_ID, PointsOrder, RunAction

MOST = 2_000  # points


class ValuesQuery(PointsOrder):
    """Filter and order of the points, and how many."""

    limit: Annotated[int, Field(ge=1, le=MOST)] = MOST


class RunValuesOfPoints(RunAction):
    """Values of a run's points."""

    path = "runs/{run}/values"
    parameters = {"run": RUN_ID}

    @Operation(
        "Get the parameters and metrics of the points of one of your runs.", query=ValuesQuery
    )
    async def on_get(self, run: str) -> RunValues:
        """Return those of the first points in this order that have reported; ``total`` counts all
        that have."""
        seen_run, query = await self.seen(run), self.query
        keys = await self.parts.store.table(RunPointTable).keys(seen_run.user, seen_run.id)
        return await asyncio.to_thread(run_values, keys, query.numbers(seen_run, keys), query.limit)


ENDPOINTS = (RunValuesOfPoints,)
