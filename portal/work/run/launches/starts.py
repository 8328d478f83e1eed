"""Start of a run: its row in the database, then its array job, which the Hub launches."""

from __future__ import annotations

import contextlib
from typing import Any, Protocol

from portal.errors import Conflict, HubUnavailable, PortalError, StoreUnavailable
from portal.models.session.run import AskedRun, Notify, Run
from portal.store import Store
from portal.work.run.kind import OPTION
from portal.work.run.tables.notices import RunNoticeTable
from portal.work.run.tables.runs import RunTable
from portal.work.run.tables.searches import RunSearchTable

from ..reports import RunReports
from .chains import Chains

_ASKED = tuple(AskedRun.model_fields)


class ServerStarts(Protocol):
    """Part of the Hub's API that this needs."""

    async def begin_server(self, user: str, server: str, options: Any) -> None:
        """Start a server; return once Slurm has its job. Raises HubUnavailable if the Hub does not
        answer: it may have begun."""

    async def runs(self, user: str, server: str) -> bool:
        """Return True if this server runs, starts or stops. Raises NotFound, HubUnavailable."""


class RunStarts:
    """Starts of runs, requested by a session, a page or a schedule."""

    def __init__(self, reports: RunReports, hub: ServerStarts, store: Store) -> None:
        self._reports, self._hub, self._store = reports, hub, store
        self._chains = Chains(store)

    async def begin(self, run: Run, notify: Notify = ()) -> None:
        """Start a new run with its own resources; return once Slurm has its job. ``notify``: the
        events that the user gets mail about. Nothing is left of a run that is refused. One of which
        it is not known stays: the Hub may submit it when Slurm answers again.

        The session repeats a request that was not answered: one for the same run starts nothing
        twice. Raises Conflict if the user has another run of this id, or the run before it has
        failed; and what the Hub raises.
        """
        waits = await self._chains.waits(run)
        repeated = False
        try:
            await self._reports.add_run(run)
        except Conflict:
            before = await self._store.table(RunTable).get(run.user, run.id)
            if before is None or not _is_same(before, run):
                raise
            if await self._is_launched(before):
                return
            repeated = True
        try:
            if run.origin is not None:
                of = (run.origin.user, run.origin.id)
                await self._store.table(RunSearchTable).copy(of, (run.user, run.id))
            await self._store.table(RunNoticeTable).ask(run.user, run.id, notify)
            await self._hub.begin_server(run.user, run.server, launch_options(run, waits=waits))
        except HubUnavailable:
            if await self._began(run):
                return
            await self._forget(run)
            raise
        except Conflict:
            if repeated and await self._began(run):
                return
            await self._forget(run)
            raise
        except PortalError:
            await self._forget(run)
            raise

    async def _is_launched(self, run: Run) -> bool:
        """Return True if a run of the database has, or had, a job. Raises StoreUnavailable."""
        if run.job_id or run.ended_at is not None:
            return True
        records, _ = await self._store.sessions.find(user=run.user, server=run.server, limit=1)
        return bool(records) and records[0].options.get(OPTION, {}).get("id") == run.id

    async def _forget(self, run: Run) -> None:
        with contextlib.suppress(StoreUnavailable):
            await self._reports.remove(run)
            await self._store.table(RunNoticeTable).remove(run.user, run.id)
            if run.origin is not None:
                await self._store.table(RunSearchTable).remove((run.user, run.id))

    async def _began(self, run: Run) -> bool:
        """Return True if the Hub has begun a start that it did not answer. Raises HubUnavailable if
        that is not known."""
        try:
            return await self._hub.runs(run.user, run.server)
        except HubUnavailable:
            raise HubUnavailable(
                "The Hub does not answer, so it is not known whether it has started the run "
                f"'{run.name}'. The run stays in your list: if it has not started within 15 "
                "minutes, it is shown as ended, and you can start it again."
            ) from None
        except PortalError:  # it knows no such server
            return False


def _is_same(before: Run, run: Run) -> bool:
    """Return True if a run of the database is what is asked for now."""
    since = {"created_at", "ended_at", "again_at", "job_id", "reason"}
    return before.model_dump(exclude=since) == run.model_dump(exclude=since)


def launch_options(run: Run, *, waits: bool = False) -> dict[str, Any]:
    """Return the ``user_options`` of a run's launch. ``waits``: for the run before it."""
    asked = run.model_dump(include=set(_ASKED), exclude_defaults=True)
    asked["at_once"] = run.at_once
    if not waits:
        asked.pop("after", None)
    return {**run.resources, "environment": run.environment, OPTION: asked}
