"""Curves of a run's points: histories of one metric, over its steps."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from portal.handlers.base.endpoint import Operation
from portal.models.session.run import MetricName
from portal.work.run.results.item import CurvesPage, PointCurve
from portal.work.run.tables.curves import RunCurveTable
from portal.work.run.tables.points import RunPointTable

from .runs import RUN_ID, PointsOrder, RunAction

MOST = 100  # points


class CurvesQuery(PointsOrder):
    """Metric, and filter and order of the points."""

    curve: Annotated[MetricName, Field(description="Name of the metric to return.")]
    limit: Annotated[int, Field(ge=1, le=MOST)] = MOST


class RunCurves(RunAction):
    """Curves of a run's points."""

    path = "runs/{run}/curves"
    parameters = {"run": RUN_ID}

    @Operation("Get the curves of a metric of one of your runs.", query=CurvesQuery)
    async def on_get(self, run: str) -> CurvesPage:
        """Return those of the first points in this order. ``total`` counts all points that have
        reported curves. Each has at most 200 steps; a task reports them every half minute, and at
        its end."""
        seen_run, query = await self.seen(run), self.query
        store, key = self.parts.store, (seen_run.user, seen_run.id)
        keys = await store.table(RunPointTable).keys(*key, values=query.by_value)
        having = await store.table(RunCurveTable).numbers(*key)
        numbers = [number for number in query.numbers(seen_run, keys) if number in having]
        first = numbers[: query.limit]
        curves = await store.table(RunCurveTable).of_metric(*key, query.curve, first)
        points = await store.table(RunPointTable).of_run(*key, curves)
        parameters = {number: point.parameters for number, point in points.items()}
        items = (
            PointCurve(number=n, pairs=tuple(curves[n]), parameters=parameters.get(n, {}))
            for n in first
            if n in curves
        )
        return CurvesPage(items=tuple(items), total=len(numbers))


ENDPOINTS = (RunCurves,)
