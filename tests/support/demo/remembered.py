"""Sessions in the portal's database, read while the Hub uses it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hub_client import wait_until

from portal.errors import StoreUnavailable
from portal.models.announcement import Announcement, AnnouncementDraft
from portal.models.session.session import SessionRecord, SessionState
from portal.store import Store


def database(demo: Any) -> Path:
    """Return the file of the demo's database."""
    return Path(demo.words["hub_directory"]) / "portal.sqlite"


def with_store(url: str, work: Callable[[Store], Awaitable[Any]]) -> Any:
    """Return what ``work`` gives when it is done on the database at ``url``. It runs in a thread of
    its own: in the caller's, Playwright's loop may run."""

    async def run() -> Any:
        store = Store(url=url)
        try:
            return await work(store)
        finally:
            await store.close()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, run()).result()


def stored(demo: Any, work: Callable[[Store], Awaitable[Any]]) -> Any:
    """Return what ``work`` gives when it is done on the demo's database."""
    return with_store(f"sqlite:///{database(demo)}", work)


def remembered(url: Path | str, user: str) -> list[SessionRecord]:
    """Return all sessions of a person, newest first. ``url``: of the database, or SQLite's file."""
    if isinstance(url, Path):
        if not url.exists():
            return []
        url = f"sqlite:///{url}"

    try:
        return list(with_store(url, lambda store: store.sessions.find(user=user))[0])
    except StoreUnavailable:  # the Hub has not made the tables yet
        return []


def of_job(url: Path | str, user: str, job_id: str) -> SessionRecord:
    """Wait for and return the only session of this job in the database."""
    (record,) = wait_until(
        f"job {job_id} is recorded",
        lambda: [session for session in remembered(url, user) if session.job_id == job_id],
    )
    return record


def closed(url: Path | str, user: str, job_id: str, timeout: float = 240) -> SessionRecord:
    """Wait for and return the session of this job once it has ended."""
    return wait_until(
        f"job {job_id} is recorded as ended",
        lambda: (record := of_job(url, user, job_id)).state is SessionState.ENDED and record,
        timeout,
    )


def measured(url: Path | str, user: str, job_id: str) -> SessionRecord:
    """Wait for and return the session of this job once its peak memory is known from Slurm's
    accounting, which has none for a job that ended before Slurm sampled it."""
    return wait_until(
        f"the peak memory of job {job_id} is recorded",
        lambda: (record := of_job(url, user, job_id)).peak_memory and record,
    )


def put(demo: Any, record: SessionRecord) -> None:
    """Write a record into the demo's database, as from a Hub that is gone."""
    stored(demo, lambda store: store.sessions.save(record))


@contextlib.contextmanager
def announced(demo: Any, draft: AnnouncementDraft) -> Iterator[None]:
    """Add an announcement to the demo's database, as the service does; withdraw it afterwards."""
    announcements: list[Announcement] = []

    async def add(store: Store) -> None:
        announcements.append(
            await store.announcements.add_announcement(draft, "grace", draft.starts_at)
        )

    stored(demo, add)
    try:
        yield
    finally:
        stored(demo, lambda store: store.announcements.withdraw(announcements[0].id, time.time()))


def lock(demo: Any) -> sqlite3.Connection:
    """Lock the demo's database against writes; close the connection to release it."""
    connection = sqlite3.connect(database(demo), isolation_level=None, timeout=30)
    connection.execute("BEGIN IMMEDIATE")
    return connection


def forget(demo: Any, user: str, job_id: str) -> None:
    """Remove a session from the portal's database and its record from the Hub's, which must not be
    running, as if an earlier version of the portal had started it."""
    with sqlite3.connect(database(demo)) as connection:
        connection.execute("DELETE FROM sessions WHERE job_id = ?", (job_id,))
    hub = Path(demo.words["hub_directory"]) / "jupyterhub.sqlite"
    with sqlite3.connect(hub) as connection:
        for row, text in connection.execute("SELECT id, state FROM spawners").fetchall():
            state = json.loads(text or "null") or {}
            if state.get("job_id") == job_id:
                del state["record"]
                connection.execute(
                    "UPDATE spawners SET state = ? WHERE id = ?", (json.dumps(state), row)
                )
