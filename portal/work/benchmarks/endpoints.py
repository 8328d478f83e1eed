"""``api/v1/benchmarks``: results of benchmarks for all users; runs that have them, for curators."""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal

from pydantic import Field

from portal.errors import Conflict, NotFound
from portal.handlers.base.action import Action, Confirmation
from portal.handlers.base.endpoint import Operation, Query
from portal.handlers.base.paging import Page, PageQuery, page
from portal.handlers.catalog.environments import as_seen_by_catalog
from portal.models import Frozen
from portal.models.scope import ENVIRONMENTS_MANAGE
from portal.models.session.chosen_id import ID
from portal.models.session.run import Run
from portal.work.run.tables.runs import RunTable

from .audit import BenchmarkAudit
from .parts import BenchmarkParts
from .results import SCRIPTS, BenchmarkResult
from .specifications import (
    GpuSpecification,
    cards_of,
    known_specifications,
    share_of_peak,
    specifications,
)
from .tables import BenchmarkResultTable, BenchmarkRun, BenchmarkRunTable

_MOST_OWN = 20  # of a user's newest runs, which can be added


class ResultsQuery(PageQuery):
    """Filters, order and page of results."""

    benchmark: Annotated[str, Field(max_length=40)] = ""
    environment: Annotated[str, Field(max_length=300)] = ""
    name: Annotated[str, Field(max_length=100, description="Name of what was measured.")] = ""
    conditions: Annotated[str, Field(max_length=200)] = ""
    sort: Literal[
        "at", "-at", "name", "-name", "environment", "-environment", "gpu_type", "-gpu_type",
        "nodes", "-nodes", "value", "-value",
    ] = "-at"  # fmt: skip


class ResultItem(Frozen):
    """Newest result of a benchmark by environment, version, hardware and nodes. ``gpu_type``: ""
    where CPUs or no processor did the work; ``simulated``: CPUs did it in the place of simulated
    GPUs; ``share``: of the peak in the GPU's data sheet, 0.5 is half, null: not known; ``fall``:
    the part by which it is worse than the earlier runs, 0: it is not, or by less than 10 %, or than
    chance may do;
    ``at``: Unix seconds."""

    benchmark: str
    name: str
    value: float
    unit: str
    conditions: str
    environment: str
    version: int
    gpu_type: str
    gpus: int
    nodes: str
    simulated: bool
    share: float | None
    fall: float
    at: float


class OwnRun(Frozen):
    """Run of the user that can be added."""

    id: str
    name: str
    environment: str
    ended: bool


class BenchmarkRuns(Frozen):
    """Runs whose results are the site's, newest first, and those of the user that can be added."""

    items: tuple[BenchmarkRun, ...]
    own: tuple[OwnRun, ...]


class AddedRun(Frozen):
    """``renew``: the run is repeated with each new version of its environment."""

    renew: Annotated[bool, Field(strict=True)] = False


class RemovedRunQuery(Query):
    """User whose run it is."""

    owner: Annotated[
        str, Field(max_length=255, description="User of the run; by default yourself.")
    ] = ""


class _Benchmarks(Action):
    @property
    def benchmarks(self) -> BenchmarkParts:
        """Objects for benchmarks."""
        return self.parts_for(BenchmarkParts)


class Results(_Benchmarks):
    """Results of benchmarks."""

    path = "benchmarks"

    @Operation("List results of benchmarks at this site.", query=ResultsQuery)
    async def on_get(self) -> Page[ResultItem]:
        """Return the newest by environment, version, hardware and nodes, in the environments that
        you may use."""
        query: ResultsQuery = self.query
        await self.parts.catalog.load()
        seen = self.parts.catalog.visible_to(as_seen_by_catalog(self.person))
        names = ("benchmark", "environment", "name", "conditions")
        wanted = {name: value for name in names if (value := getattr(query, name))}
        results, total = await self.parts.store.table(BenchmarkResultTable).find(
            {environment.name for environment in seen},
            wanted=wanted,
            sort=query.sort,
            offset=query.offset,
            limit=query.limit,
        )
        return page([_item(result) for result in results], query, total)


class Specifications(Frozen):
    """GPUs by the numbers of their data sheets."""

    items: tuple[GpuSpecification, ...]


class GpuSpecifications(Action):
    """GPUs by the numbers of their data sheets."""

    path = "benchmarks/gpus"

    @Operation("List GPUs by the numbers of their data sheets.")
    async def on_get(self) -> Specifications:
        """Return the file deploy/gpus.toml, which explains the numbers."""
        return Specifications(items=specifications())


class Runs(_Benchmarks):
    """Runs whose results are the site's."""

    path = "benchmarks/runs"

    @Operation("List the runs whose results are the site's.", scope=ENVIRONMENTS_MANAGE)
    async def on_get(self) -> BenchmarkRuns:
        """Return those of all users, and your newest runs of shipped scripts that can be added."""
        items = await self.parts.store.table(BenchmarkRunTable).newest()
        user, added = self.person.name, {(run.user, run.run) for run in items}
        runs, _ = await self.parts.store.table(RunTable).of_user(user, limit=500)
        own = [run for run in runs if _is_shipped(run) and (user, run.id) not in added]
        return BenchmarkRuns(
            items=tuple(items),
            own=tuple(OwnRun.like(run, ended=run.ended_at is not None) for run in own[:_MOST_OWN]),
        )


class OneRun(_Benchmarks):
    """Run whose results are the site's."""

    path = "benchmarks/runs/{run}"
    parameters = {"run": ID}

    @Operation(
        "Add the results of one of your runs of a shipped script to the site's.",
        body=AddedRun,
        scope=ENVIRONMENTS_MANAGE,
        errors=(409,),
    )
    async def on_put(self, run: str) -> Confirmation:
        """Have its results read once it has ended; or change whether it is renewed.

        A job runs as its user, who could report anything: results are the site's because a user
        with the right to curate environments says so, of a run of their own.
        """
        user, body = self.person.name, self.body
        async with self.audited(BenchmarkAudit.ADD_BENCHMARK, f"run {run}", user) as line:
            found = await self.parts.store.table(RunTable).get(user, run)
            if found is None:
                raise NotFound("You have no such run.")
            if found.space:
                raise Conflict(
                    "This run belongs to a space, whose environment has no versions. Add a run of "
                    "a session of your own."
                )
            line.detail = f"{found.name} of {found.environment}{', renewed' * body.renew}."
            await self.parts.store.table(BenchmarkRunTable).add_run(
                BenchmarkRun(
                    user=user,
                    run=run,
                    name=found.name,
                    environment=found.environment,
                    renew=body.renew,
                    version=found.version,
                    added_at=time.time(),
                )
            )
        self.benchmarks.collector.changed.set()
        return Confirmation(message="The results are shown once the run has ended.")

    @Operation(
        "Remove a run's results from the site's.", query=RemovedRunQuery, scope=ENVIRONMENTS_MANAGE
    )
    async def on_delete(self, run: str) -> Confirmation:
        """Remove the run, its repetitions and their results; it is no longer renewed. The run
        itself stays."""
        user = self.query.owner or self.person.name
        async with self.audited(BenchmarkAudit.REMOVE_BENCHMARK, f"run {run}", user):
            if not await self.parts.store.table(BenchmarkRunTable).remove(user, run):
                raise NotFound("The site has no results of such a run.")
        return Confirmation(message="The results were removed.")


def _is_shipped(run: Run) -> bool:
    name: Any = run.source.rpartition("/")[2]
    return not run.space and name in {f"{script}.py" for script in SCRIPTS}


def _item(result: BenchmarkResult) -> ResultItem:
    cards = [] if result.simulated else cards_of(result.gpu_type, known_specifications())
    share = share_of_peak(result.value, result.gpus, result.peak, result.operations, cards)
    return ResultItem.like(result, share=share)


ENDPOINTS = (GpuSpecifications, Runs, OneRun, Results)
