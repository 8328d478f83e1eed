"""Record of a run in the portal: its table of points as a file, and its deletion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portal.errors import Conflict
from portal.handlers.base.action import Confirmation
from portal.handlers.base.csv import MEDIA, CsvEndpoint
from portal.handlers.base.endpoint import Operation
from portal.models.audit import AuditAction
from portal.models.session.run import Run, RunPoint
from portal.work.run.parts import RunParts
from portal.work.run.tables.points import RunPointTable

from .runs import RUN_ID, PointsOrder, RunAction

_MOST_NAMES = 500  # columns of parameters, and of metrics
_PARAMETER, _METRIC = "parameters.", "metrics."  # before a name: a metric may be called "state"
_FIRST = ("number", "state")
_LAST = (
    "started_at",
    "ended_at",
    "seconds",
    "cell",
    "cells",
    "attempt",
    "job",
    "message",
    "missing",
)


class RunPointsCsv(RunAction, CsvEndpoint):
    """Points of a run of the user, as a file."""

    path = "runs/{run}/points.csv"
    parameters = {"run": RUN_ID}
    times = frozenset({"started_at", "ended_at"})
    _run: Run

    @Operation("The points of one of your runs as CSV.", query=PointsOrder, media=MEDIA)
    async def rows(self) -> Sequence[RunPoint]:
        run, query = self._run, self.query
        table = self.parts.store.table(RunPointTable)
        keys = await table.keys(run.user, run.id, values=query.by_value)
        numbers = query.numbers(run, keys)
        points = await table.of_whole_run(run.user, run.id)
        parameters = sorted({name for point in points.values() for name in point.parameters})
        metrics = sorted({name for point in points.values() for name in point.metrics})
        self.columns = (
            *_FIRST,
            *(f"{_PARAMETER}{name}" for name in parameters[:_MOST_NAMES]),
            *(f"{_METRIC}{name}" for name in metrics[:_MOST_NAMES]),
            *_LAST,
        )
        return [points.get(number) or RunPoint(number=number) for number in numbers]

    async def on_get(self, run: str) -> None:  # type: ignore[override]
        """Return a header and a line for each point: its state, its parameters and its newest
        metrics, each with 'parameters.' or 'metrics.' before its name, its times and message."""
        self._run = await self.seen(run)
        await self.send(f"{self._run.name}-points.csv")

    def value(self, row: Any, column: str) -> Any:
        if column.startswith(_PARAMETER):
            return row.parameters.get(column.removeprefix(_PARAMETER))
        if column.startswith(_METRIC):
            return row.metrics.get(column.removeprefix(_METRIC))
        if column == "seconds":
            known = row.started_at is not None and row.ended_at is not None
            return round(row.ended_at - row.started_at, 3) if known else None
        return getattr(row, column)


class RunRecord(RunAction):
    """Record of a run of the user."""

    path = "runs/{run}/record"
    parameters = {"run": RUN_ID}

    @Operation("Delete one of your runs that has ended from the portal.", errors=(409,))
    async def on_delete(self, run: str) -> Confirmation:
        """Delete its record in the portal. Its files stay."""
        own_run = await self.own(run)
        async with self.audited(
            AuditAction.DELETE_RUN, f"run {own_run.id}", own_run.user, own_run.name
        ):
            if not await self.parts.store.table(RunPointTable).remove(own_run.user, own_run.id):
                raise Conflict("This run has not ended. Stop it first.")
            self.parts_for(RunParts).reports.forget(own_run)
        return self.done(f"The run is deleted. Its files are still in {own_run.folder}.")


ENDPOINTS = (RunPointsCsv, RunRecord)
