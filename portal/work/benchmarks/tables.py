"""Runs whose results are the site's, and the results. Written by the service only."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import (
    Boolean,
    Connection,
    Double,
    Index,
    and_,
    delete,
    func,
    or_,
    select,
    text,
    update,
)

from portal.models import Frozen
from portal.store.engine.columns import (
    COUNT,
    NAME,
    TEXT,
    TIME,
    Json,
    filled,
    keyed,
    keys,
    numbered,
    optional,
)
from portal.store.engine.listing import order_by
from portal.store.engine.rows import ModelTable

from .results import EARLIER, BenchmarkResult

benchmark_runs = keyed(
    "benchmark_runs",
    *keys(NAME, "user", "run"),
    *filled(NAME, "name", "environment", "origin"),
    *filled(Boolean(), "renew"),
    *filled(COUNT, "version"),
    *filled(TIME, "added_at"),
    *optional(TIME, "taken_at", "told_at"),
    *filled(TEXT, "problem"),
    *filled(Json, "falls"),
)
benchmark_results = numbered(
    "benchmark_results",
    *filled(NAME, "user", "run", "benchmark", "environment", "gpu_type", "nodes", "name", "unit",
            "conditions", "peak"),
    *filled(COUNT, "version", "gpus"),
    *filled(Double, "value", "operations"),
    *filled(Double, "spread", server_default=text("0")),
    *filled(Double, "threshold", server_default=text("0.1")),
    *optional(Double, "before"),
    *filled(Boolean(), "simulated"),
    *filled(TIME, "at"),
    Index(None, "user", "run"),
    Index(None, "benchmark", "environment"),
)  # fmt: skip
_KEY = ("benchmark", "environment", "gpu_type", "gpus", "name", "unit", "conditions", "simulated")
_SORTS = {
    name: benchmark_results.c[name]
    for name in ("at", "name", "environment", "gpu_type", "nodes", "value")
}
_MOST_RUNS = 1_000


class BenchmarkRun(Frozen):
    """Run whose results are the site's. ``origin``: the run that it repeats, "" if a user has added
    it; ``renew``: it is repeated with each new version of its environment; ``version``: the newest
    for which that was done; ``taken_at``: when its results were read, or ``problem``, a sentence,
    says why not; ``falls``: sentences about what is worse than before, ``told_at``: when mail about
    them was sent. Times are Unix seconds, None: not yet."""

    user: str
    run: str
    name: str
    environment: str
    origin: str = ""
    renew: bool = False
    version: int = 0
    added_at: float
    taken_at: float | None = None
    told_at: float | None = None
    problem: str = ""
    falls: tuple[str, ...] = ()


class BenchmarkRunTable(ModelTable[BenchmarkRun]):
    """The table of runs. Every method raises StoreUnavailable."""

    table, model = benchmark_runs, BenchmarkRun

    async def add_run(self, run: BenchmarkRun) -> None:
        """Insert a run; of one that is there, only ``renew`` is changed."""
        insert = self._database.insert(benchmark_runs).values(run.model_dump())
        await self._write(
            insert.on_conflict_do_update(
                index_elements=["user", "run"], set_={"renew": insert.excluded.renew}
            )
        )

    async def newest(self) -> list[BenchmarkRun]:
        """Return the runs, newest first; at most 1,000."""
        query = select(benchmark_runs).order_by(benchmark_runs.c.added_at.desc())
        return await self._models(query.limit(_MOST_RUNS))

    async def untaken(self) -> list[BenchmarkRun]:
        """Return the runs whose results were not read yet, oldest first."""
        return await self._where(benchmark_runs.c.taken_at.is_(None))

    async def renewed(self) -> list[BenchmarkRun]:
        """Return the runs that are repeated with each new version of their environment."""
        return await self._where(benchmark_runs.c.renew)

    async def untold(self) -> list[BenchmarkRun]:
        """Return the runs with falls about which no mail was sent."""
        columns = benchmark_runs.c
        runs = await self._where(and_(columns.taken_at.is_not(None), columns.told_at.is_(None)))
        return [run for run in runs if run.falls]

    async def fallen(self, since: float) -> list[BenchmarkRun]:
        """Return the runs with falls, newest first, whose results were read ``since`` (Unix
        seconds), without those that a later repetition has replaced."""
        newest: dict[tuple[str, str], BenchmarkRun] = {}
        for run in await self._where(benchmark_runs.c.taken_at >= since):
            if run.falls or not run.problem:  # else it has no results
                newest[run.user, run.origin or run.run] = run
        return [run for run in reversed(newest.values()) if run.falls]

    async def _where(self, condition: Any) -> list[BenchmarkRun]:
        query = select(benchmark_runs).where(condition)
        return await self._models(query.order_by(benchmark_runs.c.added_at).limit(_MOST_RUNS))

    async def change(self, run: BenchmarkRun, **values: Any) -> None:
        """Update columns of a run."""
        await self._write(update(benchmark_runs).where(_own(run.user, run.run)).values(values))

    async def take(
        self, run: BenchmarkRun, results: Sequence[BenchmarkResult], **values: Any
    ) -> None:
        """Insert the results of a run and update its columns; both or none. One that was removed
        meanwhile stays so."""
        rows = [result.model_dump() for result in results]
        own = benchmark_results.c.user == run.user, benchmark_results.c.run == run.run

        def write(to: Connection) -> None:
            changed = update(benchmark_runs).where(_own(run.user, run.run)).values(values)
            if not to.execute(changed).rowcount:
                return
            to.execute(delete(benchmark_results).where(*own))
            if rows:
                to.execute(benchmark_results.insert(), rows)

        await self._database.run(write, write=True)

    async def remove(self, user: str, run: str) -> int:
        """Delete a run, its repetitions and their results; return how many runs."""
        runs, results = benchmark_runs, benchmark_results
        own = and_(runs.c.user == user, or_(runs.c.run == run, runs.c.origin == run))

        def write(to: Connection) -> int:
            of_runs = select(runs.c.run).where(own)
            to.execute(delete(results).where(results.c.user == user, results.c.run.in_(of_runs)))
            return to.execute(delete(runs).where(own)).rowcount

        return await self._database.run(write, write=True)


class BenchmarkResultTable(ModelTable[BenchmarkResult]):
    """The table of results. Every method raises StoreUnavailable."""

    table, model = benchmark_results, BenchmarkResult

    async def before(
        self, user: str, run: str, environment: str
    ) -> dict[tuple[object, ...], list[BenchmarkResult]]:
        """Return the newest results in an environment of other runs than this one, at most EARLIER
        by what those share that can be compared (`BenchmarkResult.key`)."""
        columns = benchmark_results.c
        other = or_(columns.user != user, columns.run != run)
        same = [columns[name] for name in _KEY]
        place = func.row_number().over(partition_by=same, order_by=columns.id.desc())
        newest = select(columns.id, place.label("place")).where(
            columns.environment == environment, other
        )
        ids = newest.subquery()
        query = self._all().where(columns.id.in_(select(ids.c.id).where(ids.c.place <= EARLIER)))
        found: dict[tuple[object, ...], list[BenchmarkResult]] = {}
        for result in await self._models(query):
            found.setdefault(result.key, []).append(result)
        return found

    def _newest(self) -> Any:
        """Return a query for the newest of the results that can be compared, by version and
        nodes."""
        columns = benchmark_results.c
        same = [columns[name] for name in (*_KEY, "version", "nodes")]
        newest = select(func.max(columns.id)).group_by(*same)
        return self._all().where(columns.id.in_(newest))

    def _all(self) -> Any:
        return select(*(benchmark_results.c[name] for name in BenchmarkResult.model_fields))

    async def find(
        self,
        environments: Collection[str],
        *,
        wanted: dict[str, str],
        sort: str = "-at",
        offset: int = 0,
        limit: int = 50,
    ) -> tuple[list[BenchmarkResult], int]:
        """Return one page of the newest results by version and nodes, and their number; only those
        in these environments with the ``wanted`` values in their columns. Raises InvalidRequest
        too."""
        columns = benchmark_results.c
        query = self._newest().where(columns.environment.in_(list(environments)))
        for name, value in wanted.items():
            query = query.where(columns[name] == value)
        return await self._page(query, order_by(benchmark_results, sort, _SORTS), offset, limit)


def _own(user: str, run: str) -> Any:
    return and_(benchmark_runs.c.user == user, benchmark_runs.c.run == run)
