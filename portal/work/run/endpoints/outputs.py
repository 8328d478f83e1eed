"""Outputs of a run's points: sent by their jobs while the user looks at them, and at the end of
those that failed; visible only to the run's user."""

from __future__ import annotations

import time
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from portal.errors import NotFound
from portal.handlers.base.action import Confirmation
from portal.handlers.base.endpoint import Operation, Query
from portal.models import Frozen
from portal.models.audit import AuditAction
from portal.models.session.run import MOST_ATTEMPTS, PointNumber, Run
from portal.models.session.run_output import (
    LARGEST,
    LONGEST_CODE,
    MOST_QUESTIONS,
    AskedKernel,
    KernelAnswer,
    KernelQuestion,
    PointOutput,
    Rank,
    StoredOutput,
)
from portal.work.run.live import PointKey
from portal.work.run.opener import opener_url
from portal.work.run.parts import RunParts
from portal.work.run.seen import living_sessions
from portal.work.run.tables.outputs import RunOutputTable

from .reports import PointHandler
from .runs import RUN_ID, RunAction

_POINT = "[0-9]{1,4}"


class OutputReport(Frozen):
    """Output of a ``point`` by its number, from 0; null: as before. ``last``: the point has ended.
    ``kept_until``: time until which its kernel is kept (Unix seconds), 0 once that has ended, with
    the kernel's ``answers``; null: none is kept."""

    point: PointNumber
    attempt: Annotated[int, Field(ge=1, le=MOST_ATTEMPTS, strict=True)] = 1
    state: Literal["waiting", "running", "succeeded", "failed"]
    output: PointOutput | None = None
    last: bool = False
    kept_until: Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False)] | None = None
    answers: Annotated[tuple[KernelAnswer, ...], Field(max_length=MOST_QUESTIONS)] = ()


class OutputAnswer(Frozen):
    """Answer to an output. ``watched``: its user looks at it; ``missing``: the portal has no
    output to show; ``rank``: whose log that is to be; ``questions``: code for the kept kernel;
    ``end``: that is to end."""

    watched: bool
    missing: bool
    rank: int = 0
    questions: tuple[KernelQuestion, ...] = ()
    end: bool = False


class ShownKernel(Frozen):
    """Kernel that is kept ``until`` (Unix seconds), and what it was ``asked``, the newest last."""

    until: float
    asked: tuple[AskedKernel, ...]


class ShownOutput(Frozen):
    """Output of a point, null: none has come yet. ``at``: when it came (Unix seconds); ``kernel``:
    that of its failed cell; null: none is kept. ``opener``: address in a session of the user that
    opens the file which ``path`` names in its query; a session is started if none runs."""

    output: PointOutput | None = None
    at: float | None = None
    kernel: ShownKernel | None = None
    opener: str


class RankQuery(Query):
    """Rank of a script whose log is asked for."""

    rank: Rank = 0


class Code(Frozen):
    """Code for a kept kernel, such as the name of a variable."""

    code: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_CODE)]


class PointOutputs(PointHandler):
    """Output of a point, by its own job."""

    path = "session/points/output"
    largest = max_body = LARGEST

    @Operation(
        "Send the output of a point of a run. Needs the token of the run's job.",
        body=OutputReport,
        errors=(409,),
    )
    async def on_post(self) -> OutputAnswer:
        """Keep it in memory while its user looks at it; store the last one of a failed point."""
        report: OutputReport = self.body
        run = await self.run_of_job()
        live, now = self.parts_for(RunParts).live, time.time()
        key = (run.user, run.id, report.point)
        if report.kept_until is not None and run.keep_failed:
            live.keep(key, report.kept_until, report.answers)
        if report.output is not None:
            held = report.kept_until is not None
            live.take(key, report.attempt, report.output, now, last=report.last, held=held)
            if report.last and report.state == "failed":
                stored = StoredOutput(attempt=report.attempt, at=now, output=report.output)
                await self.parts.store.table(RunOutputTable).save(key[:2], report.point, stored)
        return OutputAnswer(
            watched=live.is_watched(key),
            missing=live.is_missing(key),
            rank=live.rank(key),
            questions=live.questions(key),
            end=live.is_to_end(key),
        )


class _PointAction(RunAction):
    """Base class: a point of a run of the user."""

    parameters = {"run": RUN_ID, "point": _POINT}
    run: Run  # of the point, once its key is known

    async def key(self, run: str, point: str) -> PointKey:
        """Return the key of a point. Raises NotFound, StoreUnavailable."""
        own = self.run = await self.own(run)
        if int(point) >= own.points:
            raise NotFound(f"This run has points 0 to {own.points - 1}.")
        return own.user, own.id, int(point)


class ShownPoint(_PointAction):
    """Output of a point, for its user."""

    path = "runs/{run}/points/{point}/output"

    @Operation("Get the output of a point of one of your runs.", query=RankQuery)
    async def on_get(self, run: str, point: str) -> ShownOutput:
        """Return the newest output as text. The point's job sends it every few seconds for half a
        minute after this question; of a point that failed, the last output is stored. That of
        another ``rank`` than asked for may be older than the question."""
        key = await self.key(run, point)
        watched = self.parts_for(RunParts).live.watch(key, self.query.rank)
        output, at = watched.output, watched.at
        if output is None or watched.ended:
            stored = await self.parts.store.table(RunOutputTable).get(key[:2], key[2])
            if stored is not None and (output is None or stored.attempt > watched.attempt):
                output, at = stored.output, stored.at
        held = self.parts_for(RunParts).live.kernel(key)
        kernel = None if held is None else ShownKernel(until=held.until, asked=tuple(held.asked))
        sessions = [
            record for (user, _), record in living_sessions(self.parts).items() if user == key[0]
        ]
        opener = opener_url(self.run, sessions, self.parts.base)
        return ShownOutput(output=output, at=at, kernel=kernel, opener=opener)


class PointKernel(_PointAction):
    """Kernel that is kept after a point has failed."""

    path = "runs/{run}/points/{point}/kernel"

    @Operation(
        "Execute code in the kept kernel of a failed point of one of your runs.",
        body=Code,
        status=202,
        errors=(409,),
    )
    async def on_post(self, run: str, point: str) -> AskedKernel:
        """Execute it if the run was started with ``keep_failed``. The answer comes with the point's
        output, some seconds later."""
        return self.parts_for(RunParts).live.ask(await self.key(run, point), self.body.code)

    @Operation("End the kept kernel of a failed point of one of your runs.", errors=(409,))
    async def on_delete(self, run: str, point: str) -> Confirmation:
        """End the point's job with it."""
        key = await self.key(run, point)
        async with self.audited(
            AuditAction.END_POINT_KERNEL, f"run {key[1]}", key[0], f"Point {key[2]}."
        ):
            self.parts_for(RunParts).live.end_kernel(key)
        return self.done("The kernel is being ended.")


ENDPOINTS = (PointOutputs, ShownPoint, PointKernel)
