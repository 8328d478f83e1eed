"""Best points of several runs of the user, for the list of runs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from portal.handlers.base.endpoint import Operation, Query
from portal.models import Frozen
from portal.models.session.chosen_id import ID
from portal.models.session.run import Run
from portal.work.run.results.list_best import ListBest, own_metric, thinned
from portal.work.run.tables.curves import RunCurveTable
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.runs import RunTable
from portal.work.run.tables.searches import RunSearchTable

from .runs import RunAction

_MOST = 50  # runs


class BestsQuery(Query):
    """Runs of the user."""

    ids: Annotated[
        str,
        StringConstraints(pattern=rf"^{ID}(,{ID}){{0,{_MOST - 1}}}$"),
        Field(description=f"Ids of at most {_MOST} runs, with commas between them."),
    ]


class RunBests(Frozen):
    """Best points of those runs whose points have reported a metric."""

    items: tuple[ListBest, ...]


class BestsOfRuns(RunAction):
    """Best points of runs of the user."""

    path = "run-bests"

    @Operation("Get the best point of each of several runs of yours.", query=BestsQuery)
    async def on_get(self) -> RunBests:
        """Return them by the metric of the run's search, otherwise by the first metric that its
        points report, a loss or an accuracy if there is one."""
        user, runs = self.person.name, dict.fromkeys(self.query.ids.split(","))
        names = await self.parts.store.of(RunPointTable).metric_names(user, runs)
        bests = [await self._best(run, names[run.id]) for run in await self._own(names)]
        return RunBests(items=tuple(best for best in bests if best is not None))

    async def _own(self, ids: dict[str, list[str]]) -> list[Run]:
        """Return the runs with these ids that the one who asks reaches."""
        get, user = self.parts.store.of(RunTable).get, self.person.name
        found = [await get(user, id_) for id_ in ids]
        return [run for run in found if run is not None and self.reaches(run)]

    async def _best(self, run: Run, names: list[str]) -> ListBest | None:
        store, key = self.parts.store, (run.user, run.id)
        chosen = own_metric(names, await store.of(RunSearchTable).get(key))
        if chosen is None:
            return None
        metric, lowest = chosen
        best = await store.of(RunPointTable).best(*key, metric, lowest=lowest)
        if best is None:
            return None
        number, value = best
        curves = await store.of(RunCurveTable).of_metric(*key, metric, [number])
        curve = thinned([y for _, y in curves.get(number, ())])
        return ListBest(
            run=run.id, metric=metric, lowest=lowest, point=number, value=value, curve=curve
        )


ENDPOINTS = (BestsOfRuns,)
