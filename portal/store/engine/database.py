"""Execution of queries: in threads, each in one short transaction, with errors in words."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, Table, event, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError

from portal.errors import PortalError, StoreUnavailable

from .address import WRITE, Address, without_secrets
from .copying import copy
from .faults import NO_SCHEMA, SILENT, fault_of
from .upgrade import HEAD, revision_of, upgrade

T = TypeVar("T")
_PAUSE = 2.0  # seconds without queries after one that was not answered at all


class Database:
    """Connections to a database. ``seconds``: time limit of a query, waiting included.

    The threads are its own, so that one that hangs holds up nothing else; a query that is not
    answered in time gets an error, and its connection is cut, which frees the thread.
    """

    def __init__(
        self, address: Address, *, seconds: float, threads: int, log: logging.Logger | Any
    ) -> None:
        self.address = address
        self.seconds = seconds
        self.log = log
        self.error = ""
        self.error_since: float | None = None
        self.detail = ""  # the driver's message, for admins
        # For metrics: queries that were answered or failed, and their seconds, waiting included.
        self.queries, self.failures, self.query_seconds = 0, 0, 0.0
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="portal-database")
        self._count = threads
        self._engine: Engine | None = None
        self._open: set[Any] = set()  # PostgreSQL's connections
        self._lock = threading.Lock()  # one thread makes the engine, checks the schema
        self._ready = False  # the schema is this version's
        self._may_upgrade = False
        self._paused_until = 0.0
        self._closed = False
        self._upserts: dict[tuple[str, tuple[str, ...]], Any] = {}

    async def run(self, work: Callable[[Connection], T], *, write: bool = False) -> T:
        """Run ``work(connection)`` in a thread and a transaction; ``write``: it changes something.

        Raises StoreUnavailable; exceptions of ``work`` itself pass through.
        """
        began = time.monotonic()
        self.queries += 1
        try:
            if began < self._paused_until:
                raise StoreUnavailable(self.error or SILENT.error().message)
            given_up = threading.Event()
            return await self._in_time(lambda: self._transaction(work, write, given_up), given_up)
        except StoreUnavailable:
            self.failures += 1
            raise
        finally:
            self.query_seconds += time.monotonic() - began

    async def upgrade(self) -> None:
        """Upgrade the schema to this version; if the database is away now, the first query after
        that does it. Raises StoreUnavailable."""
        self._may_upgrade = True
        self._ready = False
        # Without a limit: a large table may take minutes to be changed.
        await asyncio.get_running_loop().run_in_executor(self._threads, self._guarded, self._look)

    async def revision(self) -> str | None:
        """Return the version of the schema; None if there is none yet. Creates and changes
        nothing. Raises StoreUnavailable, also for a version newer than this portal's."""

        def ask() -> str | None:
            with self.engine.connect() as connection:
                return revision_of(connection)

        return await self._in_time(ask, threading.Event())

    async def copy_from(self, source: Address) -> int:
        """Copy everything from another database, with no limit of time; return how many rows."""
        work = partial(self._guarded, partial(copy, source, self.address))
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def close(self) -> None:
        """Close connections and threads."""
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._cut()  # Python waits for its threads at its end, and one of them may hang
        if self._engine is not None:
            await asyncio.to_thread(self._engine.dispose)

    def insert(self, table: Table) -> Any:
        """Return an INSERT that knows ``on_conflict_do_update``, as both databases do."""
        kind = sqlite if self.address.path is not None else postgresql
        return kind.insert(table)

    def upsert(self, table: Table, *changed: str) -> Any:
        """Return an INSERT of whole rows that updates these columns (default: all but the primary
        key) of a row with the same primary key. Cached: building it takes longer than running it.
        """
        known = self._upserts.get((table.name, changed))
        if known is None:
            insert, keys = self.insert(table), [key.name for key in table.primary_key]
            names = changed or tuple(column.name for column in table.c if not column.primary_key)
            values = {name: insert.excluded[name] for name in names}
            known = insert.on_conflict_do_update(index_elements=keys, set_=values)
            self._upserts[table.name, changed] = known
        return known

    @property
    def engine(self) -> Engine:
        """Engine, made by the first thread that needs it: loading the driver takes a while."""
        if self._engine is None:
            engine = self.address.engine(self.seconds, self._count)
            if self.address.path is None:
                event.listen(engine, "connect", lambda raw, record: self._open.add(raw))
                event.listen(engine, "close", lambda raw, record: self._open.discard(raw))
            self._engine = engine
        return self._engine

    async def _in_time(self, work: Callable[[], T], given_up: threading.Event) -> T:
        """Run ``work`` in a thread. After ``seconds``, set ``given_up`` and raise the error."""
        if self._closed:
            raise StoreUnavailable("The portal is stopping. Try again in a moment.")
        loop = asyncio.get_running_loop()
        asked = loop.run_in_executor(self._threads, self._guarded, work)
        try:
            return await asyncio.wait_for(asked, self.seconds)
        except TimeoutError:
            given_up.set()
            self._cut()
            failed = self._failed(SILENT.error(), f"no answer within {self.seconds:g} s")
            self._paused_until = time.monotonic() + _PAUSE
            raise failed from None

    def _transaction(
        self, work: Callable[[Connection], T], write: bool, given_up: threading.Event
    ) -> T:
        if not self._ready:
            self._look()
        with self.engine.connect() as connection:
            if write:
                connection = connection.execution_options(**WRITE)
            with connection.begin() as transaction:
                result = work(connection)
                if given_up.is_set():  # the caller was told that it failed
                    transaction.rollback()
            return result

    def _guarded(self, work: Callable[[], T]) -> T:
        """Run ``work``; errors of the database become StoreUnavailable and ``self.error``."""
        try:
            result = work()
        except SQLAlchemyError as error:
            fault = fault_of(error)
            if fault is None:
                raise
            if fault.schema:
                self._ready = False  # an older copy was put back
            if fault.away:
                self._paused_until = time.monotonic() + _PAUSE
            raise self._failed(fault.error(), str(getattr(error, "orig", error))) from None
        except PortalError as error:
            if isinstance(error, StoreUnavailable):
                self._failed(error, "")
            raise
        if self.error:
            self.log.info("The database answers again.")
            self.error, self.error_since, self.detail = "", None, ""
        self._paused_until = 0.0
        return result

    def _failed(self, error: StoreUnavailable, detail: str) -> StoreUnavailable:
        """Record an error, and log it if it is a new one."""
        new = self.error != error.message
        self.error, self.detail = error.message, without_secrets(detail, self.address.url)
        if self.error_since is None:
            self.error_since = time.time()
        if new:
            suffix = f" ({self.detail})" if self.detail else ""
            self.log.error("%s: %s%s", self.address.place, error.message, suffix)
        return error

    def _look(self) -> None:
        """Check that the schema is this version's; if allowed, upgrade it."""
        with self._lock:
            if self._ready:
                return
            if self._may_upgrade:
                upgrade(self.address)
            else:
                with self.engine.connect() as connection:
                    if revision_of(connection) != HEAD:
                        raise NO_SCHEMA.error()
            self._ready = True

    def _cut(self) -> None:
        """Shut down PostgreSQL's connections from outside, which wakes the threads that wait on
        them. (statement_timeout ends a slow statement before that, if the server is alive.)"""
        for raw in list(self._open):
            with contextlib.suppress(Exception):
                with socket.socket(fileno=raw.fileno()) as wire:
                    try:
                        wire.shutdown(socket.SHUT_RDWR)
                    finally:
                        wire.detach()


def ping(connection: Connection) -> None:
    """Run a query that costs nothing."""
    connection.execute(text("SELECT 1"))
