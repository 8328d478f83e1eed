"""Reports of a run's points, from the tasks of its job."""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from portal.errors import Conflict, InvalidRequest, NotAllowed
from portal.handlers.base.action import Action
from portal.handlers.base.endpoint import Operation
from portal.handlers.base.own_session import OwnSession
from portal.launch.kinds import reserved_for
from portal.models import Frozen
from portal.models.session.run import (
    FINAL,
    MOST_ATTEMPTS,
    MOST_DRIFT,
    Curves,
    Drift,
    Metric,
    MetricName,
    Parameter,
    ParameterName,
    PointNumber,
    PointState,
    Run,
    RunPoint,
)
from portal.models.session.run_conditions import RunConditions
from portal.work.run.parts import RunParts
from portal.work.run.tables.conditions import RunConditionTable

_MOST_CELLS = 1_000_000
_Cell = Annotated[int, Field(ge=0, le=_MOST_CELLS, strict=True)]


class PointReport(Frozen):
    """Report of a ``point`` by its number, from 0: its state, the notebook's ``cell`` of ``cells``,
    a sentence, its newest metrics, its parameters, and its Slurm job. ``curves``: by the name of
    a metric, pairs of a step and a value; left out if they are as before. ``attempt``: from 1; it
    is larger if the point ran before. One that waits was saved, and its job starts again.
    ``drift``: of a repetition, the differences from the original point; ``conditions``: under which
    the points of a project's run are executed, once they are known."""

    point: PointNumber
    state: Literal["waiting", "running", "succeeded", "failed"]
    cell: _Cell | None = None
    cells: _Cell | None = None
    message: Annotated[str, StringConstraints(max_length=2000)] = ""
    metrics: Annotated[dict[MetricName, Metric], Field(max_length=50)] = {}
    parameters: Annotated[dict[ParameterName, Parameter], Field(max_length=50)] = {}
    curves: Curves = {}
    job: Annotated[
        str,
        StringConstraints(pattern=r"^([0-9]{1,12}(_[0-9]{1,9})?)?$"),
        Field(examples=["123_4"]),
    ] = ""
    attempt: Annotated[int, Field(ge=1, le=MOST_ATTEMPTS, strict=True)] = 1
    drift: Annotated[tuple[Drift, ...], Field(max_length=MOST_DRIFT)] = ()
    conditions: RunConditions | None = None


class ReportAnswer(Frozen):
    """Answer to a report. ``watched``: its user looks at the point, whose job then sends its
    output."""

    watched: bool


class PointHandler(OwnSession):
    """Base class of endpoints for the job of a point."""

    async def run_of_job(self) -> Run:
        """Return the run whose job asks. Raises NotAllowed, Conflict if it has ended,
        StoreUnavailable."""
        server = self.server or ""
        address, run = reserved_for(server), None
        if address is not None and address.kind.array:  # no other asks the database
            run = await self.parts_for(RunParts).reports.on_server(self.person.name, server)
        if run is None:
            raise NotAllowed("This token does not belong to a run's job.")
        if self.body.point >= run.points:
            raise InvalidRequest(f"This run has points 0 to {run.points - 1}.", "point")
        if run.ended_at is not None:
            raise Conflict("This run has already ended.")
        return run

    async def hub_model(self) -> Any:
        """Return the Hub's model of the job's token, which is cached: a thousand points report
        every few seconds, and nothing else than their own run can be changed."""
        return await Action.hub_model(self)


class RunReport(PointHandler):
    """Report of a point, by its own job."""

    path = "session/points"

    @Operation(
        "Report the progress of a point of a run. Needs the token of the run's job.",
        body=PointReport,
        errors=(409, 429),
    )
    async def on_post(self) -> ReportAnswer:
        """Send it again if it was lost. The newest report counts; one of an end is final, except
        for a later attempt."""
        report: PointReport = self.body
        run = await self.run_of_job()
        if report.attempt <= run.attempt:
            raise Conflict("This attempt has ended: the point was started again.")
        now = time.time()
        state = PointState(report.state)
        point = RunPoint(
            number=report.point,
            state=state,
            started_at=now,
            ended_at=now if state in FINAL else None,
            **report.model_dump(exclude={"point", "state", "curves", "conditions"}),
        )
        if report.conditions is not None and run.project:
            table = self.parts.store.table(RunConditionTable)
            await table.save((run.user, run.id), report.conditions)
        size = len(self.request.body)
        await self.parts_for(RunParts).reports.take(run, point, report.curves, size)
        key = (run.user, run.id, report.point)
        return ReportAnswer(watched=self.parts_for(RunParts).live.is_watched(key))


ENDPOINTS = (RunReport,)
