"""Runs as the files in their folders have them, read by their user's session: last reports that did
not arrive, and runs that an older copy of the database lacks. The portal itself cannot read users'
files."""

from __future__ import annotations

import time
from itertools import groupby
from typing import Annotated, Any, Literal

from pydantic import Field

from portal.errors import InvalidRequest, NotFound
from portal.handlers.base.action import Confirmation
from portal.handlers.base.endpoint import Operation
from portal.models import Frozen
from portal.models.audit import AuditAction
from portal.models.catalog.environment import Name as EnvironmentName
from portal.models.session.run import (
    MOST_POINTS,
    PointNumber,
    PointState,
    Run,
    RunFolder,
    RunId,
    RunName,
    RunPoint,
    RunSource,
)
from portal.work.run.kind import Run as RunKind
from portal.work.run.tables.curves import RunCurveTable
from portal.work.run.tables.folders import RunFolderTable
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.runs import RunTable

from .reports import PointReport
from .start import RunsOfSession, key_of

MOST = 200  # points in one answer
_MOST_SENT = 50  # points in one request
_MOST_IDS = 500
_LARGEST = 1024 * 1024  # bytes of a request
_DAY = 86_400.0
_UNREAD = "Its last metrics are not known: the folder of the run does not have them."
_Time = Annotated[float, Field(ge=0, le=2**40, allow_inf_nan=False)]


class UnreadRun(Frozen):
    """Run with points whose last reports did not arrive: its id, its folder, and their numbers."""

    id: str
    folder: str
    points: tuple[int, ...]


class UnreadRuns(Frozen):
    """Runs that the session should read from their folders."""

    items: tuple[UnreadRun, ...]


class FolderPoint(PointReport):
    """Point as its folder has it. ``state``: "running" if its manifest does not say how it ended;
    ``read``: false if it has no folder that can be read."""

    state: Literal["running", "succeeded", "failed"] = "running"
    read: bool = True
    started_at: _Time | None = None
    ended_at: _Time | None = None


class FolderPoints(Frozen):
    """Points of one run, 50 at most."""

    run: RunId
    points: Annotated[tuple[FolderPoint, ...], Field(min_length=1, max_length=_MOST_SENT)]


class RunIds(Frozen):
    """Ids of runs, 500 at most."""

    ids: Annotated[tuple[RunId, ...], Field(max_length=_MOST_IDS)]


class FolderRun(Frozen):
    """Run as its folder has it, after its end."""

    id: RunId
    name: RunName
    source: RunSource
    folder: RunFolder
    points: Annotated[PointNumber, Field(ge=1, le=MOST_POINTS)]
    environment: EnvironmentName
    created_at: _Time
    ended_at: _Time


class _FromFolders(RunsOfSession):
    largest = _LARGEST

    async def own_key(self) -> dict[str, Any]:
        """Return the key of a run with the space of the session that asks; {} for its user's own.
        Raises NotAllowed if it may not have runs, Unavailable, StoreUnavailable."""
        return key_of(await self.space(await self.own_record()))

    async def own_space(self) -> str:
        """Return that space, whose runs alone the session may read; "" for its user's own."""
        return "".join((await self.own_key()).values())


class UnreadReports(_FromFolders):
    """Points whose last reports did not arrive."""

    path = "session/runs/unread"

    @Operation("List points whose last reports did not arrive.")
    async def on_get(self) -> UnreadRuns:
        """Use a session's own token. Return the points of the newest runs first, 200 at most."""
        space = await self.own_space()
        points = await self.parts.store.table(RunFolderTable).missing(self.person.name, space, MOST)
        return UnreadRuns(
            items=tuple(
                UnreadRun(id=run, folder=folder, points=tuple(point.number for point in group))
                for (run, folder), group in groupby(points, lambda point: (point.run, point.folder))
            )
        )

    @Operation("Report points of a run from its folder.", body=FolderPoints)
    async def on_post(self) -> Confirmation:
        """Use a session's own token. Points whose last reports have arrived stay as they are."""
        space, user, store = await self.own_space(), self.person.name, self.parts.store
        run = await store.table(RunTable).get(user, self.body.run)
        if run is None or run.space != space:
            raise NotFound("You have no such run.")
        reports: dict[int, FolderPoint] = {point.point: point for point in self.body.points}
        if max(reports) >= run.points:
            raise InvalidRequest(f"This run has points 0 to {run.points - 1}.", "points")
        before = await store.table(RunPointTable).of_run(user, run.id, list(reports))
        points = [
            (_point(report, before[number]), _is_end(report, before[number]))
            for number, report in reports.items()
            if number in before
        ]
        completed = await store.table(RunFolderTable).complete((user, run.id), points)
        await store.table(RunCurveTable).save(
            [
                ((user, run.id), number, report.attempt, report.curves)
                for number, report in reports.items()
                if number in completed and report.curves
            ]
        )
        return Confirmation(message=f"{len(completed)} points were completed.")


def _is_end(report: FolderPoint, before: RunPoint) -> bool:
    return report.read and report.state != "running" and report.attempt >= before.attempt


def _point(report: FolderPoint, before: RunPoint) -> RunPoint:
    """Return the point with what its folder says."""
    if not report.read or report.attempt < before.attempt:
        message = before.message if before.metrics else f"{before.message} {_UNREAD}".strip()
        return before.model_copy(update={"message": message})
    values = report.model_dump(exclude={"point", "curves", "read", "state"})
    return RunPoint(number=report.point, state=PointState(report.state), **values)


class UnknownRuns(_FromFolders):
    """Runs that the portal does not have, of which the session knows the folders."""

    path = "session/runs/unknown"

    @Operation("Find out which of these runs the portal does not have.", body=RunIds)
    async def on_post(self) -> RunIds:
        """Use a session's own token. Runs that wait or run in Slurm, and those that their user has
        deleted, are not among them."""
        await self.own_space()
        unknown = await self.parts.store.table(RunFolderTable).unknown(
            self.person.name, self.body.ids
        )
        living = self.living_servers()
        return RunIds(ids=tuple(id_ for id_ in unknown if RunKind.server_name(id_) not in living))

    def living_servers(self) -> set[str]:
        """Return the names in the comments of the user's jobs that live, known or not."""
        jobs = self.view.snapshot.jobs.values()
        return {
            job.comment.rpartition(":")[2]
            for job in jobs
            if job.user == self.person.name and not job.state.ended
        }


class RestoredRuns(UnknownRuns):
    """Runs that an older copy of the database lacks."""

    path = "session/runs/restored"

    @Operation("Restore the record of a run that has ended.", body=FolderRun, errors=(409,))
    async def on_post(self) -> Confirmation:  # type: ignore[override]
        """Use a session's own token. All of its points are unread then. A run that is older than
        the runs that the site keeps is not restored."""
        key, user = await self.own_key(), self.person.name
        asked: FolderRun = self.body
        run = Run(
            **asked.model_dump(),
            **key,
            user=user,
            server=RunKind.server_name(asked.id),
        )
        days = self.parts.store.sessions_days
        if days and asked.ended_at < time.time() - days * _DAY:
            raise NotFound("The run is older than the runs that this site keeps.")
        store = self.parts.store.table(RunFolderTable)
        if run.server in self.living_servers() or not await store.unknown(user, [run.id]):
            raise NotFound("The run is not to be restored.")
        async with self.audited(AuditAction.RESTORE_RUN, f"run {run.id}", user, f"Run {run.name}."):
            await store.restore(run)
        return self.done("The run is restored.")


ENDPOINTS = (UnreadReports, UnknownRuns, RestoredRuns)
