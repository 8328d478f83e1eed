"""``api/v1/runs``: a user's own runs, for the user and for the user's sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from portal.errors import Conflict, NotAllowed, NotFound, StoreUnavailable
from portal.handlers.base.action import Confirmation, SessionAction
from portal.handlers.base.endpoint import Operation, Query
from portal.handlers.base.own_session import own_server
from portal.handlers.base.paging import MOST, Page, PageQuery, page
from portal.launch.kinds import reserved_for
from portal.models.audit import AuditAction
from portal.models.scope import SESSION_OWN
from portal.models.session.chosen_id import ID
from portal.models.session.run import MOST_POINTS, PointState, Run, RunPoint
from portal.models.session.session import SessionRecord
from portal.sessions.ending import words_for
from portal.work.run.follower import is_of
from portal.work.run.parts import RunParts
from portal.work.run.results.best import best_point
from portal.work.run.results.conditions import conditions
from portal.work.run.results.item import (
    PointsPage,
    RunDetail,
    RunItem,
    RunState,
)
from portal.work.run.results.order import point_numbers
from portal.work.run.seen import items_for, viewer_of
from portal.work.run.tables.folders import RunFolderTable
from portal.work.run.tables.notices import RunNoticeTable
from portal.work.run.tables.points import PointKeys, RunPointTable
from portal.work.run.tables.runs import RunTable
from portal.work.run.tables.shares import RunShareTable

RUN_ID = ID
_NO_SUCH = "You have no such run."


class RunsQuery(PageQuery):
    """Filters, order and page of runs. Of a state: "failed" are those with a failed point."""

    text: Annotated[
        str, Field(max_length=100, description="Text contained in the name or the source.")
    ] = ""
    state: Literal["", "living", "ended", "failed"] = ""
    environment: Annotated[str, Field(max_length=300)] = ""
    space: Annotated[str, Field(max_length=300, description="Name of the runs' space.")] = ""
    sort: Literal[
        "created_at", "-created_at", "ended_at", "-ended_at", "seconds", "-seconds",
        "name", "-name", "environment", "-environment",
    ] = "-created_at"  # fmt: skip


class OwnerQuery(Query):
    """User of a run. Several users can have runs of one id: sessions choose the ids."""

    owner: Annotated[
        str,
        Field(max_length=255, description="User of a run that you may see; by default yourself."),
    ] = ""


class RunQuery(OwnerQuery):
    """Metric by which the best points of a run are named."""

    metric: Annotated[str, Field(max_length=100)] = ""


class PointsOrder(OwnerQuery):
    """Filter and order of a run's points."""

    state: PointState | None = None
    sort: Literal[
        "number", "-number", "state", "-state", "cell", "-cell", "started_at", "-started_at",
        "ended_at", "-ended_at", "seconds", "-seconds", "metric", "-metric",
        "parameter", "-parameter",
    ] = "number"  # fmt: skip
    metric: Annotated[
        str, Field(max_length=100, description="Name of the metric that 'sort' refers to.")
    ] = ""
    parameter: Annotated[
        str, Field(max_length=100, description="Name of the parameter that 'sort' refers to.")
    ] = ""
    where: Annotated[
        str,
        Field(
            max_length=500,
            description="Conditions on parameters and metrics that all have to hold, separated by "
            "spaces. A name or value with spaces is in quotation marks.",
            examples=["lr<0.01 opt=adam"],
        ),
    ] = ""

    @property
    def by_value(self) -> bool:
        """Return whether the order or the filter needs metrics and parameters."""
        return bool(self.where) or self.sort.endswith(("metric", "parameter"))

    def numbers(self, run: Run, keys: Sequence[PointKeys]) -> list[int]:
        """Return the numbers of the points that pass, in their order. ``keys``: of those with a
        row. Raises InvalidRequest."""
        name = self.parameter if self.sort.endswith("parameter") else self.metric
        where = conditions(self.where)
        return point_numbers(run.points, keys, self.state, self.sort, name, where)


class PointsQuery(PointsOrder):
    """Filter, order and page of a run's points."""

    offset: Annotated[int, Field(ge=0, le=MOST_POINTS)] = 0
    limit: Annotated[int, Field(ge=1, le=MOST)] = 50


class RunAction(SessionAction):
    """Base class: the user's own runs. A session's own token will do, where runs are offered. That
    of a space's session leads to the runs of its ``space`` alone, since others may be let into
    the session, and only where ``in_spaces``."""

    in_spaces: ClassVar[bool] = True
    space: str = ""

    def check_hub_user(self, model: dict[str, Any]) -> dict[str, Any]:
        server = own_server(model, SESSION_OWN)
        if server is None:
            return super().check_hub_user(model)
        address = reserved_for(server)
        if address is not None and not (address.kind.job_kernels and self.in_spaces):
            raise NotAllowed(f"Runs are not offered in {address.kind.title}.")
        self.space = address.space if address is not None else ""
        return model

    def reaches(self, run: Run) -> bool:
        """Return True unless a space's session asks, and the run is not the space's."""
        return self.space in ("", run.space)

    async def own(self, id_: str) -> Run:
        """Return a run of this user. Raises NotFound, StoreUnavailable."""
        run = await self.parts.store.table(RunTable).get(self.person.name, id_)
        if run is None or not self.reaches(run):
            raise NotFound(_NO_SUCH)
        return run

    async def seen(self, id_: str, owner: str | None = None) -> Run:
        """Return a run of this user, or one of its ``owner``, by default that of the query, which
        they may see. Raises NotFound, StoreUnavailable."""
        owner = self.query.owner if owner is None else owner
        if self.space or owner in ("", self.person.name):
            return await self.own(id_)
        viewer = await viewer_of(self.parts.memberships, self.person)
        run = await self.parts.store.table(RunShareTable).get(viewer, owner, id_)
        if run is None:
            raise NotFound(_NO_SUCH)
        return run

    async def items(self, runs: list[Run]) -> list[RunItem]:
        """Return the items of runs as this user sees them. Raises StoreUnavailable."""
        return await items_for(self.person.name, runs, self.parts)

    def in_slurm(self, run: Run, point: RunPoint) -> RunPoint:
        """Return a point that waits with what it waits for besides its turn, such as a release."""
        words = (
            self.parts_for(RunParts).living.words.get((run.user, run.id), {}).get(point.number, "")
        )
        if point.state is not PointState.WAITING or not words or run.ended_at is not None:
            return point
        return point.model_copy(update={"message": f"{point.message} {words}".strip()})

    async def session_of(self, run: Run) -> SessionRecord | None:
        """Return the session of a run; None while it is not recorded."""
        find = self.parts.store.sessions.find
        records, _ = await find(user=run.user, server=run.server, limit=1)
        return records[0] if records and is_of(records[0], run) else None


class Runs(RunAction):
    """Runs of the user."""

    path = "runs"

    @Operation("List your runs.", query=RunsQuery)
    async def on_get(self) -> Page[RunItem]:
        """Return them with the number of points in each state."""
        query = self.query
        runs, total = await self.parts.store.table(RunTable).of_user(
            self.person.name,
            space=self.space or query.space,
            environment=query.environment,
            state=query.state,
            text=query.text,
            sort=query.sort,
            offset=query.offset,
            limit=query.limit,
        )
        return page(await self.items(runs), query, total)


class OneRun(RunAction):
    """Run of the user."""

    path = "runs/{run}"
    parameters = {"run": RUN_ID}

    @Operation("Get one of your runs.", query=RunQuery)
    async def on_get(self, run: str) -> RunDetail:
        """Return it with a sentence about its session; also one that is shared with you."""
        (item,) = await self.items([await self.seen(run)])
        try:
            record = await self.session_of(item)
        except StoreUnavailable:
            record = None
        keys = await self.parts.store.table(RunPointTable).keys(item.user, item.id)
        drift = (
            await self.parts.store.table(RunPointTable).drift(item.user, item.id)
            if item.origin
            else ()
        )
        message, is_own = self._message(item, record), item.user == self.person.name
        before = (
            await self.parts.store.table(RunTable).get(item.user, item.after)
            if item.after
            else None
        )
        if before is not None and before.ended_at is None and item.state is RunState.WAITING:
            message = f"The run is waiting for '{before.name}'."
        return RunDetail(
            **item.model_dump(),
            message=message,
            metrics=tuple(sorted({name for key in keys for name in key.metrics})),
            parameters=tuple(sorted({name for key in keys for name in key.parameters})),
            search=await self.parts_for(RunParts).searches.item(item, keys),
            lowest=best_point(keys, self.query.metric, min),
            highest=best_point(keys, self.query.metric, max),
            after_name=before.name if before else "",
            notify=await self.parts.store.table(RunNoticeTable).of_run(item.user, item.id)
            if is_own
            else (),
            mine=is_own,
            drift=tuple(drift),
            missing=await self.parts.store.table(RunFolderTable).count(item.user, item.id),
        )

    def _message(self, run: Run, record: SessionRecord | None) -> str:
        """Return why it waits, or how its session ended."""
        if run.ended_at is not None and run.reason:
            return run.reason
        if record is None:
            if run.ended_at is None:
                return ""
            return "The run did not start, and none of its points was executed. Start it again."
        view = self.parts.dashboard.view
        prefix = f"{record.job_id}_"
        jobs = view.jobs.items() if view is not None and record.job_id else ()
        for job_id, job in jobs:
            if job_id.startswith(prefix) and "[" in job_id:
                return f"Job {record.job_id}: {job.words}."
        words = words_for(record, self.person.name)
        # The numbers of an ending are those of the points that this job had.
        again = run.again_at is not None and run.ended_at is not None
        return f"Failed points ran again. {words}" if words and again else words

    @Operation("Stop one of your runs.", errors=(409,))
    async def on_delete(self, run: str) -> Confirmation:
        """Cancel the points that wait or run. What the others have written stays."""
        own_run = await self.own(run)
        async with self.audited(
            AuditAction.STOP_RUN, f"run {own_run.id}", own_run.user, own_run.server
        ):
            record = await self.session_of(own_run)
            if own_run.ended_at is not None or (record is not None and record.ended_at is not None):
                raise Conflict("This run has already ended.")
            if record is not None:
                await self.stop(record)
            else:  # the Hub knows a new one before the database does
                await self.parts.hub.stop_server(
                    own_run.user, own_run.server, on_behalf_of=self.person.name
                )
        return self.done("The run is being stopped.")


class RunPoints(RunAction):
    """Points of a run of the user."""

    path = "runs/{run}/points"
    parameters = {"run": RUN_ID}

    @Operation("List the points of one of your runs.", query=PointsQuery)
    async def on_get(self, run: str) -> PointsPage:
        """Return the page at ``offset``; points without a report wait."""
        seen_run, query = await self.seen(run), self.query
        table = self.parts.store.table(RunPointTable)
        keys = await table.keys(seen_run.user, seen_run.id, values=query.by_value)
        numbers = query.numbers(seen_run, keys)
        page_numbers = numbers[query.offset : query.offset + query.limit]
        points = await table.of_run(seen_run.user, seen_run.id, page_numbers)
        return PointsPage(
            items=tuple(
                self.in_slurm(seen_run, points.get(number) or RunPoint(number=number))
                for number in page_numbers
            ),
            total=len(numbers),
        )


class OneRunPoint(RunAction):
    """Point of a run of the user."""

    path = "runs/{run}/points/{point}"
    parameters = {"run": RUN_ID, "point": r"[0-9]{1,5}"}

    @Operation("Get a point of one of your runs.", query=OwnerQuery)
    async def on_get(self, run: str, point: str) -> RunPoint:
        """Return it as it has reported last; a point that has not reported waits."""
        seen_run, number = await self.seen(run), int(point)
        if number >= seen_run.points:
            raise NotFound(f"This run has points 0 to {seen_run.points - 1}.")
        points = await self.parts.store.table(RunPointTable).of_run(
            seen_run.user, seen_run.id, [number]
        )
        return self.in_slurm(seen_run, points.get(number) or RunPoint(number=number))


ENDPOINTS = (Runs, OneRun, RunPoints, OneRunPoint)
