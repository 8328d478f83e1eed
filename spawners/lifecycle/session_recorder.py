"""Recorder of sessions in the portal's database.

The Hub's process is the only one that writes sessions. Nothing here may delay a launch or a stop,
or make one fail: records wait in memory, the newest of each session, while the database is away.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Any

from portal.errors import PortalError
from portal.models.session.session import SessionRecord, SessionState
from portal.periodic import Periodic
from portal.store import Store

from .reconciler import Reconciler

_MOST = 2000  # records that wait; each may hold 16 KiB of a log
_TOGETHER = 50  # records that are saved in one transaction
_REMEMBERED = 10_000
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 10.0  # seconds between two tries while the database is away
_LAST_WORDS = 3.0  # seconds that the Hub's end may take for what still waits
_RECONCILE_EVERY = 600.0


class Recorder:
    """Recorder of a Hub. ``note`` takes a record; the rest runs in the background (``start``)."""

    def __init__(self, store: Store, closing: Reconciler, log: Any) -> None:
        self.store, self.closing, self.log = store, closing, log
        self.closing.note = self.note
        self._waiting: OrderedDict[str, SessionRecord] = OrderedDict()
        self._news = asyncio.Event()
        self._saved: OrderedDict[str, None] = OrderedDict()
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._tasks: list[asyncio.Task[None]] = []

    def note(self, record: SessionRecord) -> None:
        """Save ``record`` as soon as possible, in place of the session's previous one."""
        if record.state is SessionState.ENDED:
            _remember(self._ended, record.id)
        self._waiting[record.id] = record
        self._news.set()
        while len(self._waiting) > _MOST:
            lost, _ = self._waiting.popitem(last=False)
            self.log.error(
                "The database has not answered for too long: session %s is not recorded", lost
            )

    def close(self, record: SessionRecord) -> None:
        """Close a session that has no spawner any more: its record ends when its job has."""
        self.closing.watch_session(record)

    def has(self, session_id: str) -> bool:
        """Return True if the database has this session, in any state."""
        return session_id in self._saved

    @property
    def job_ids(self) -> set[str]:
        """Ids of the jobs of records that the database may not have yet."""
        waiting = {record.job_id for record in self._waiting.values()}
        return waiting | self.closing.job_ids

    # -- in the background ----------------------------------------------------------------------

    def start(self, held: Callable[[], Collection[str]] | None = None) -> None:
        """Start, in the running event loop; a second call does nothing.

        ``held`` returns the ids of the sessions that have a spawner. With it, the sessions that
        are alive in the database are compared with them now and then.
        """
        jobs: list[Any] = [] if self._tasks else [self._save_all(), self.closing.run()]
        if held is not None:
            jobs.append(self._reconcile_all(held))
        self._tasks += [asyncio.ensure_future(job) for job in jobs]

    async def _save_all(self) -> None:
        try:
            await self._upgrade()
            while True:
                await self._news.wait()
                await self._save_what_waits()
        finally:
            # The Hub ends by cancelling its tasks, and waits for them
            # (jupyterhub.app.JupyterHub.shutdown_cancel_tasks).
            try:
                if self._waiting:
                    await self._last_words()
            finally:
                await self.store.close()

    async def _upgrade(self) -> None:
        """Upgrade the database: the Hub may be up before its service has made the tables."""
        try:
            await self.store.upgrade()
        except PortalError as error:
            self.log.warning("Sessions are recorded later: %s", error)

    async def _save_what_waits(self) -> None:
        pause, number = _FIRST_PAUSE, _TOGETHER
        while self._waiting:
            batch = list(self._waiting.values())[:number]
            try:
                await self._save(*batch)
                pause, number = _FIRST_PAUSE, _TOGETHER
            except PortalError as error:
                self.log.debug("Sessions are recorded later: %s", error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            except Exception:
                # The fault of one of these records, which must not block the others.
                if len(batch) > 1:
                    number = 1
                    continue
                self.log.exception("Session %s cannot be recorded", batch[0].id)
                self._waiting.pop(batch[0].id, None)
        self._news.clear()

    async def _save(self, *records: SessionRecord) -> None:
        await self.store.sessions.save(*records)
        for record in records:
            _remember(self._saved, record.id)
            if self._waiting.get(record.id) is record:  # else a newer one waits
                del self._waiting[record.id]

    async def _last_words(self) -> None:
        async def say() -> None:
            for record in list(self._waiting.values()):
                await self._save(record)

        try:
            # Not asyncio.timeout(), which in a task that is being cancelled raises no TimeoutError.
            await asyncio.wait_for(say(), _LAST_WORDS)
        except (PortalError, TimeoutError) as error:
            self.log.error("%d sessions were not recorded: %s", len(self._waiting), error or "late")

    # -- what was missed ------------------------------------------------------------------------

    async def _reconcile_all(self, held: Callable[[], Collection[str]]) -> None:
        await Periodic(
            "The check of open sessions",
            lambda: self._reconcile(held),
            lambda last: _LONGEST_PAUSE if isinstance(last, PortalError) else _RECONCILE_EVERY,
            self.log,
            level=logging.DEBUG,
        ).run()

    async def _reconcile(self, held: Callable[[], Collection[str]]) -> None:
        """Close sessions that are open in the database and have no spawner: their end was missed.
        Delete old ones, if the site wants that."""
        living = await self.store.sessions.living()
        known = {*held(), *self._waiting, *self._ended}
        for record in living:
            if record.id not in known and record.id not in self.closing:
                self.log.info("Session %s of %s has no server", record.id, record.user)
                self.close(record)
        if self.store.sessions_days:
            before = time.time() - self.store.sessions_days * 86400
            await self.store.sessions.prune(before)
            await self.store.estimates.prune(before)

    def take_over(self, left: Collection[SessionRecord]) -> None:
        """Take over records that an earlier Hub kept: the database was away until its end."""
        if left:
            self._tasks.append(asyncio.ensure_future(self._take_over(left)))

    async def _take_over(self, left: Collection[SessionRecord]) -> None:
        for record in left:
            while True:
                try:
                    known = await self.store.sessions.get(record.id)
                    break
                except PortalError:
                    await asyncio.sleep(_LONGEST_PAUSE)
            if known is not None and known.state is SessionState.ENDED:
                continue
            if record.state is SessionState.ENDED:
                self.note(record)
            elif record.id not in self.closing:
                self.close(record)


def _remember(ids: OrderedDict[str, None], session_id: str) -> None:
    ids[session_id] = None
    while len(ids) > _REMEMBERED:
        ids.popitem(last=False)
