"""``api/v1/projects/{project}/runs``: the runs that the members of a project see."""

from __future__ import annotations

from collections import defaultdict
from typing import Annotated, Literal

from pydantic import Field

from portal.handlers.base.endpoint import Operation
from portal.handlers.base.paging import Page, PageQuery, page
from portal.work.run.results.item import RunItem
from portal.work.run.results.list_best import ListBest, listed_bests
from portal.work.run.seen import items_for
from portal.work.run.tables.shares import RunShareTable

from .access import ProjectAction


class ProjectRunsQuery(PageQuery):
    """Filters and page of runs, newest first. ``state``: as in the list of one's own runs."""

    user: Annotated[str, Field(max_length=255, description="User of the runs.")] = ""
    state: Literal["", "living", "ended", "failed"] = ""
    limit: Annotated[int, Field(ge=1, le=50)] = 25


class ProjectRun(RunItem):
    """Run with its ``best`` point by its own metric; null: no point has reported one."""

    best: ListBest | None = None


class ProjectRunsPage(Page[ProjectRun]):
    """Page of runs; ``users``: of all runs that the project's members see, for the filter."""

    users: tuple[str, ...]


class ProjectRuns(ProjectAction):
    """Runs for a project, and those that are shared with it. Not for admins who are not in it: a
    project's runs are seen by its members."""

    path = "projects/{project}/runs"
    admins = False

    @Operation("List the runs of a project.", query=ProjectRunsQuery)
    async def on_get(self, project: str) -> ProjectRunsPage:
        """Return those for the project and those that are shared with it, with the best point of
        each."""
        query, store = self.query, self.parts.store
        table = store.table(RunShareTable)
        runs, total = await table.of_project(
            project, user=query.user, state=query.state, offset=query.offset, limit=query.limit
        )
        ids = defaultdict[str, list[str]](list)
        for run in runs:
            ids[run.user].append(run.id)
        bests = {user: await listed_bests(store, user, of_user) for user, of_user in ids.items()}
        items = [
            ProjectRun(**item.model_dump(), best=bests[item.user].get(item.id))
            for item in await items_for(self.person.name, runs, self.parts)
        ]
        users = tuple(await table.users_of(project))
        return ProjectRunsPage(**dict(page(items, query, total)), users=users)


ENDPOINTS = (ProjectRuns,)
