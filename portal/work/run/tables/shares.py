"""Shares of runs: who may see a run and repeat it. Written by the service only.

A run is seen by its user, by the users it is shared with, by the members of the project that it is
for, and by the members of the projects and of the Hub's groups it is shared with. Who these are is
asked each time, and never kept here.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any, Literal, NamedTuple

from sqlalchemy import Column, ColumnElement, Index, Select, and_, delete, select, union

from portal.models.session.run import Run
from portal.store.engine.columns import NAME, TIME, filled, keyed, keys
from portal.store.engine.listing import order_by
from portal.store.engine.rows import ModelTable

from .runs import STATES, runs

TeamKind = Literal["project", "group"]

run_shares = keyed(
    "run_shares",
    *keys(NAME, "owner", "run", "user"),
    *filled(TIME, "at"),
    Index(None, "user"),
)
run_team_shares = keyed(
    "run_team_shares",
    *keys(NAME, "owner", "run", "kind", "team"),
    *filled(TIME, "at"),
    Index(None, "kind", "team"),
)
_SORTS = {"created_at": runs.c.created_at}


class Viewer(NamedTuple):
    """User who asks for runs, with the ``projects`` and the Hub's ``groups`` they are in now."""

    user: str
    projects: Collection[str] = ()
    groups: Collection[str] = ()


class RunShareTable(ModelTable[Run]):
    """The tables of shares: by owner, run and the user that it is shared with; and by owner, run
    and the project or group. Every method raises StoreUnavailable."""

    table, model = runs, Run

    async def share(self, owner: str, run: str, user: str) -> None:
        """Share a run with a user; nothing changes if it is."""
        values = {"owner": owner, "run": run, "user": user, "at": time.time()}
        insert = self._database.insert(run_shares).values(values)
        await self._write(insert.on_conflict_do_nothing())

    async def share_with(self, owner: str, run: str, kind: TeamKind, team: str) -> None:
        """Share a run with a project or a group; nothing changes if it is."""
        values = {"owner": owner, "run": run, "kind": kind, "team": team, "at": time.time()}
        insert = self._database.insert(run_team_shares).values(values)
        await self._write(insert.on_conflict_do_nothing())

    async def unshare(self, owner: str, run: str, user: str) -> bool:
        """End a share; return False if there was none."""
        columns = run_shares.c
        this = and_(columns.owner == owner, columns.run == run, columns.user == user)
        return bool(await self._write(delete(run_shares).where(this)))

    async def unshare_with(self, owner: str, run: str, kind: TeamKind, team: str) -> bool:
        """End a share with a project or a group; return False if there was none."""
        columns = run_team_shares.c
        this = and_(
            columns.owner == owner,
            columns.run == run,
            columns.kind == kind,
            columns.team == team,
        )
        return bool(await self._write(delete(run_team_shares).where(this)))

    async def users(self, owner: str, run: str) -> list[str]:
        """Return the users with whom a run is shared, in alphabetical order."""
        columns = run_shares.c
        query = select(columns.user).where(columns.owner == owner, columns.run == run)
        return [row.user for row in await self._rows_of(query.order_by(columns.user))]

    async def teams(self, owner: str, run: str) -> list[tuple[TeamKind, str]]:
        """Return the kinds and names of the projects and groups with which a run is shared, in
        alphabetical order."""
        columns = run_team_shares.c
        query = select(columns.kind, columns.team).where(columns.owner == owner, columns.run == run)
        rows = await self._rows_of(query.order_by(columns.kind, columns.team))
        return [(row.kind, row.team) for row in rows]

    async def get(self, viewer: Viewer, owner: str, run: str) -> Run | None:
        """Return the run with this id of an ``owner`` if the viewer may see it; None if not."""
        return await self._first(_runs_of(_shown_to(viewer), owner, run))

    async def with_user(
        self, viewer: Viewer, *, text: str = "", offset: int = 0, limit: int = 50
    ) -> tuple[list[Run], int]:
        """Return one page of the runs of others that the viewer may see, newest first, and their
        number; with ``text``, those that have it in their name."""
        query = _runs_of(_shown_to(viewer)).where(runs.c.user != viewer.user)
        if text:
            query = query.where(runs.c.name.icontains(text, autoescape=True))
        return await self._page(query, order_by(runs, "-created_at", _SORTS), offset, limit)

    async def of_project(
        self, project: str, *, user: str = "", state: str = "", offset: int = 0, limit: int = 50
    ) -> tuple[list[Run], int]:
        """Return one page of the runs for a project and of those that are shared with it, newest
        first, and their number; only those of a ``user``, and of a ``state`` as `RunTable.of_user`
        has it."""
        query = _runs_of(_of_projects([project]))
        if user:
            query = query.where(runs.c.user == user)
        if state:
            query = query.where(STATES[state])
        return await self._page(query, order_by(runs, "-created_at", _SORTS), offset, limit)

    async def users_of(self, project: str) -> list[str]:
        """Return the users of those runs, in alphabetical order."""
        query = _runs_of(_of_projects([project])).with_only_columns(runs.c.user).distinct()
        return [row.user for row in await self._rows_of(query.order_by(runs.c.user))]


class _Shown(NamedTuple):
    """Rows with keys of runs that are shown: their columns, and the condition."""

    owner: Column[str]
    run: Column[str]
    condition: ColumnElement[bool]


def _runs_of(shown: Sequence[_Shown], *of_run: str) -> Select[Any]:
    """Return the query for the runs with these keys; ``of_run``: only for that of this owner and
    id, so that no others are read."""
    queries = []
    for owner, run, condition in shown:
        query = select(owner.label("owner"), run.label("run")).where(condition)
        queries.append(query.where(owner == of_run[0], run == of_run[1]) if of_run else query)
    known = union(*queries).subquery()
    return select(runs).join(known, and_(known.c.owner == runs.c.user, known.c.run == runs.c.id))


def _of_projects(projects: Collection[str]) -> list[_Shown]:
    """Return the runs that the members of these projects may see."""
    columns = runs.c
    of_project = and_(columns.project.in_(projects), columns.project != "")
    return [_Shown(columns.user, columns.id, of_project), _shared_with("project", projects)]


def _shared_with(kind: TeamKind, teams: Collection[str]) -> _Shown:
    columns = run_team_shares.c
    with_teams = and_(columns.kind == kind, columns.team.in_(teams))
    return _Shown(columns.owner, columns.run, with_teams)


def _shown_to(viewer: Viewer) -> list[_Shown]:
    """Return the runs of others that a viewer may see."""
    columns = run_shares.c
    return [
        _Shown(columns.owner, columns.run, columns.user == viewer.user),
        *_of_projects(viewer.projects),
        _shared_with("group", viewer.groups),
    ]
