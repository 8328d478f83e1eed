"""Runs of users. Written by the service only."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import reduce
from operator import add
from typing import Any

from sqlalchemy import (
    Boolean,
    Index,
    Row,
    bindparam,
    column,
    delete,
    exists,
    false,
    func,
    or_,
    select,
    table,
    text,
    update,
)

from portal.errors import Conflict
from portal.models.session.run import SPACE_KEYS, PointState, Run, RunOrigin
from portal.store.engine.columns import COUNT, NAME, TEXT, TIME, Json, filled, keyed, keys, optional
from portal.store.engine.listing import moment, order_by
from portal.store.engine.rows import ModelTable

RunKey = tuple[str, str]  # user, and id of the run
_EMPTY = text("''")  # of columns that are newer than the table

runs = keyed(
    "runs",
    *keys(NAME, "user", "id"),
    *filled(NAME, "server", "name", "environment", "job_id"),
    *filled(Json, "resources"),
    *filled(Boolean(), "keep_failed", server_default=false()),
    *filled(COUNT, "points", "at_once", "resumes"),
    *filled(TIME, "created_at"),
    *optional(TIME, "ended_at", "again_at"),
    *filled(TEXT, "source", "folder"),
    *filled(NAME, "after", server_default=_EMPTY),
    *filled(TEXT, "reason", server_default=_EMPTY),
    *filled(TEXT, "only", "digest", "code_digest", server_default=text("''")),
    *filled(COUNT, "attempt", "version", "ranks", server_default="0"),
    *optional(Json, "origin"),
    *filled(NAME, *SPACE_KEYS, server_default=_EMPTY),
    Index(None, "user", "created_at"),
    Index(None, "ended_at"),
)
# One of them at most is not empty.
space_of_run = reduce(add, (runs.c[name] for name in SPACE_KEYS))
# Runs that their users have deleted: they are not restored from their folders.
deleted_runs = keyed("deleted_runs", *keys(NAME, "user", "run"), *filled(TIME, "deleted_at"))
_SORTS = {
    **{name: runs.c[name] for name in ("created_at", "ended_at", "name", "environment")},
    "seconds": runs.c.ended_at - runs.c.created_at,
}
_POINTS = table("run_points", column("user"), column("run"), column("state"))  # of points.py
_STATES = {
    "living": runs.c.ended_at.is_(None),
    "ended": runs.c.ended_at.is_not(None),
    "failed": exists().where(
        _POINTS.c.user == runs.c.user,
        _POINTS.c.run == runs.c.id,
        _POINTS.c.state == PointState.FAILED.value,
    ),
}
OWN = (runs.c.user == bindparam("of_user"), runs.c.id == bindparam("of_id"))


class RunTable(ModelTable[Run]):
    """The table of runs, by user and id. Every method raises StoreUnavailable."""

    table, model = runs, Run

    async def add_run(self, run: Run) -> None:
        """Insert a new run. Raises Conflict if the user has one of this id."""
        insert = self._database.insert(runs).values(run.model_dump())
        statement = insert.on_conflict_do_nothing().returning(runs)
        if await self._database.run(lambda to: to.execute(statement).first(), write=True) is None:
            raise Conflict(
                f"You already have a run with the id '{run.id}'. Start this one with another id."
            )

    async def remove(self, user: str, id_: str) -> None:
        """Delete a run that was refused."""
        await self._write(delete(runs).where(*OWN), {"of_user": user, "of_id": id_})

    async def get(self, user: str, id_: str) -> Run | None:
        """Return a run of a user; None without one."""
        return await self._first(select(runs).where(runs.c.user == user, runs.c.id == id_))

    async def of_ids(self, user: str, ids: Collection[str]) -> list[Run]:
        """Return those of a user's runs that have these ids."""
        return await self._models(select(runs).where(runs.c.user == user, runs.c.id.in_(list(ids))))

    async def on_server(self, user: str, server: str) -> Run | None:
        """Return the newest run on a server of a user; None without one."""
        query = select(runs).where(runs.c.user == user, runs.c.server == server)
        return await self._first(query.order_by(runs.c.created_at.desc()).limit(1))

    async def of_user(
        self,
        user: str,
        *,
        space: str = "",
        environment: str = "",
        state: str = "",
        text: str = "",
        sort: str = "-created_at",
        offset: int = 0,
        limit: int = 50,
    ) -> tuple[list[Run], int]:
        """Return one page of a user's runs, and their number; only those of ``space``, of
        ``environment``, with ``text`` in their name or source, and of a ``state``: "living",
        "ended", or "failed", which have a failed point; "" is any. Raises InvalidRequest too."""
        query = select(runs).where(runs.c.user == user)
        if space:
            query = query.where(space_of_run == space)
        if environment:
            query = query.where(runs.c.environment == environment)
        if state:
            query = query.where(_STATES[state])
        if text:
            texts = (runs.c.name, runs.c.source)
            query = query.where(or_(*(each.icontains(text, autoescape=True) for each in texts)))
        return await self._page(query, order_by(runs, sort, _SORTS), offset, limit)

    async def used(self, user: str) -> tuple[list[str], list[str]]:
        """Return the environments and the spaces of a user's runs, in alphabetical order."""
        own = select(runs.c.environment, space_of_run).where(runs.c.user == user).distinct()
        rows = await self._rows_of(own)
        return sorted({row[0] for row in rows}), sorted({row[1] for row in rows if row[1]})

    async def sources(self, user: str, limit: int) -> list[str]:
        """Return the notebooks and scripts of a user's newest runs of no space, each once."""
        own = select(runs.c.source).where(runs.c.user == user, space_of_run == "")
        newest = own.group_by(runs.c.source).order_by(func.max(runs.c.created_at).desc())
        return [row.source for row in await self._rows_of(newest.limit(limit))]

    async def unended(self, user: str, since: float, limit: int) -> list[Run]:
        """Return a user's newest runs that have not ended, or that have since ``since`` (Unix
        seconds)."""
        ended_at = runs.c.ended_at
        query = (
            select(runs)
            .where(runs.c.user == user, or_(ended_at.is_(None), ended_at > moment(since, "since")))
            .order_by(ended_at.is_not(None), runs.c.created_at.desc())
        )
        return await self._models(query.limit(limit))

    async def names(self, user: str) -> set[str]:
        """Return the names of all runs of a user."""
        query = select(runs.c.name).where(runs.c.user == user)
        return {row.name for row in await self._rows_of(query)}

    async def living(self) -> list[Run]:
        """Return all runs that have not ended, oldest first."""
        query = select(runs).where(runs.c.ended_at.is_(None)).order_by(runs.c.created_at)
        return await self._models(query)

    async def note_jobs(self, job_ids: Mapping[RunKey, str]) -> None:
        """Set the ids of the runs' jobs; all or none."""
        if job_ids:
            statement = update(runs).where(*OWN).values(job_id=bindparam("to_job"))
            rows = [
                {"of_user": key[0], "of_id": key[1], "to_job": id_} for key, id_ in job_ids.items()
            ]
            await self._write(statement, rows)

    async def note_folder(self, user: str, id_: str, folder: str) -> None:
        """Set the absolute path of a run's folder."""
        statement = update(runs).where(*OWN).values(folder=folder)
        await self._write(statement, {"of_user": user, "of_id": id_})

    async def end(self, user: str, id_: str, at: float, reason: str = "") -> None:
        """End a run at ``at`` (Unix seconds), if it has not ended. ``reason``: a sentence if it
        could not start after another run."""
        ended = {"ended_at": at, "reason": reason}
        statement = update(runs).where(*OWN, runs.c.ended_at.is_(None)).values(ended)
        await self._write(statement, {"of_user": user, "of_id": id_})

    def _made(self, row: Row[Any]) -> Run:
        """Return the run of a row. It was validated when it was asked for."""
        values = row._asdict()
        origin = values["origin"]
        return Run.trusted(**{**values, "origin": origin and RunOrigin.trusted(**origin)})
