"""Best points of several runs of the user, for the list of runs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from portal.handlers.base.endpoint import Operation, Query
from portal.models import Frozen
from portal.models.session.chosen_id import ID
from portal.work.run.results.list_best import ListBest, listed_bests
from portal.work.run.tables.runs import RunTable

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
        """Return them by the metric of the run's search, otherwise by the first in alphabetical
        order that its points report, a loss or an accuracy if there is one."""
        store, user = self.parts.store, self.person.name
        found = await store.table(RunTable).of_ids(user, set(self.query.ids.split(",")))
        ids = [run.id for run in found if self.reaches(run)]
        return RunBests(items=tuple((await listed_bests(store, user, ids)).values()))


ENDPOINTS = (BestsOfRuns,)
