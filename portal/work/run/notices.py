"""Mail about runs whose users asked for it: at the end, or at the first point that failed.

Mail about schedules goes out with it.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from portal.models.session.run import Notify, PointState, Run, RunEvent
from portal.notices.notices import Notices
from portal.notices.post import Mail, MailQueue
from portal.notices.words import one_line
from portal.periodic import Periodic
from portal.store import Store
from portal.work.run.schedule_notices import ScheduleNotices
from portal.work.run.tables.notices import OpenNotice, RunNoticeTable
from portal.work.run.tables.points import RunPointTable

_EVERY = 5.0  # seconds
_DAY = 86_400.0
_NEWS = 7 * _DAY  # after the end of a run; later than this, mail about it is none
_FAILED = (PointState.FAILED, PointState.LOST)

Counts = Mapping[PointState, int]


class RunNotices:
    """Task of the service that sends the mail about runs.

    A notice is open in the database until its mail was handed over: after a restart it is not sent
    again, and while the mail server or the service is away, none is lost.
    """

    def __init__(self, notices: Notices, store: Store, log: Any) -> None:
        self.post = MailQueue(notices, log)
        self._store, self._log = store, log
        self._schedules = ScheduleNotices(self.post, store)
        self._prune_at = 0.0  # in time.monotonic()

    async def check(self, user: str, notify: Notify) -> None:
        """Raise Conflict or NotFound if this user cannot get the mail that is asked for."""
        if notify:
            await self.post.check(user)

    async def run(self) -> None:
        """Send mail about the runs until cancelled."""
        # Quiet: the next look finds what this one did not.
        await Periodic(
            "The mail about runs",
            lambda: self.send_due(time.time()),
            _EVERY,
            self._log,
            level=logging.DEBUG,
        ).run()

    async def send_due(self, now: float) -> None:
        """Send what is due at ``now`` (Unix seconds). Raises StoreUnavailable."""
        if not self.post.on:
            return
        await self._prune(now)
        await self._schedules.send_due(now)
        notices = await self._store.table(RunNoticeTable).open()
        counts = await self._counts(notices)
        asked = {(notice.run.user, notice.run.id, notice.event) for notice in notices}
        for notice in notices:
            run = notice.run
            states = counts[run.user].get(run.id, {})
            with_end = (run.user, run.id, RunEvent.END) in asked
            outcome = await self._settled(notice, states, now, with_end=with_end)
            if outcome is None and due(notice, states) and not self.post.waits(key_of(notice)):
                failure = await self._first_failure(run) if any(map(states.get, _FAILED)) else ""
                mail = mail_of(notice, states, failure, self.post.pages)
                outcome = await self.post.send(mail, now)
            if outcome is not None:
                await self._store.table(RunNoticeTable).save_outcome(notice, now, outcome)

    async def _settled(
        self, notice: OpenNotice, states: Counts, now: float, *, with_end: bool
    ) -> str | None:
        """Return why no mail is sent, in a sentence; None if it is, or may be later."""
        ended_at = notice.run.ended_at
        if ended_at is None:
            return None
        if now - ended_at > _NEWS:
            return "The run ended more than a week ago."
        if notice.event is not RunEvent.FAILURE:
            return None
        if not any(map(states.get, _FAILED)):
            return "No point failed."
        if with_end:
            return "The mail about the end of the run includes it."
        if notice.run.reason and await self._is_notified(notice.run.after, notice):
            return "The mail about the run before this one includes it."
        return None

    async def _is_notified(self, run: str, notice: OpenNotice) -> bool:
        """Return True if the user gets mail about the same event of another run."""
        return notice.event in await self._store.table(RunNoticeTable).of_run(notice.run.user, run)

    async def _counts(self, notices: list[OpenNotice]) -> dict[str, dict[str, Counts]]:
        """Return the numbers of the runs' points in each state, by user and run."""
        ids: dict[str, set[str]] = defaultdict(set)
        for notice in notices:
            ids[notice.run.user].add(notice.run.id)
        table = self._store.table(RunPointTable)
        return {user: {**await table.counts(user, runs)} for user, runs in ids.items()}

    async def _first_failure(self, run: Run) -> str:
        """Return what the first point that failed says: "Point 3: …"; "" if it says nothing."""
        keys = await self._store.table(RunPointTable).keys(run.user, run.id)
        failed = [key for key in keys if key.state in _FAILED]
        if not failed:
            return ""
        first = min(failed, key=lambda key: (key.ended_at or 0.0, key.number)).number
        points = await self._store.table(RunPointTable).of_run(run.user, run.id, [first])
        message = points[first].message if first in points else ""
        return f"Point {first}: {message}" if message and message != run.reason else ""

    async def _prune(self, now: float) -> None:
        if time.monotonic() >= self._prune_at:
            days = self._store.sessions_days or 365
            await self._store.table(RunNoticeTable).prune(now - days * _DAY)
            self._prune_at = time.monotonic() + _DAY


def key_of(notice: OpenNotice) -> str:
    """Return the key of a notice's mail; each job of a run has another."""
    run = notice.run
    return f"run.{run.id}.{run.job_id or 0}.{notice.event}"


def due(notice: OpenNotice, states: Counts) -> bool:
    """Return True if the event of a notice has happened. ``states``: of the run's points."""
    if notice.event is RunEvent.END:
        return notice.run.ended_at is not None
    return any(map(states.get, _FAILED))


def mail_of(notice: OpenNotice, states: Counts, failure: str, pages: str) -> Mail:
    """Return the mail of a notice. ``states``: numbers of the run's points; ``failure``: what the
    first failed one says; ``pages``: address of the service with a final slash."""
    run, name = notice.run, one_line(notice.run.name)
    begun = [state for state in PointState if states.get(state) and state is not PointState.WAITING]
    succeeded = f"{states.get(PointState.SUCCEEDED, 0):,} of {run.points:,} succeeded"
    others = [state for state in begun if state is not PointState.SUCCEEDED]
    numbers = [succeeded, *(f"{states[state]:,} {state}" for state in others)]
    waiting = run.points - sum(states[state] for state in begun)
    if waiting and run.ended_at is None:
        numbers.append(f"{waiting:,} waiting")
    words = ", ".join(numbers)
    of = f"Your run '{name}' of {one_line(run.source)}"
    if notice.event is RunEvent.END:
        subject = f"Your run '{name}' has ended: {words}"
        first = f"{of} has ended: {words}."
    else:
        subject = f"A point of your run '{name}' has failed"
        first = f"{of} has had its first failure: {words}."
    reasons = [one_line(" ".join(text.split()), 1000) for text in (run.reason, failure) if text]
    link = f"The run and all its points:\n{pages}runs/{run.id}"
    return Mail(key_of(notice), run.user, subject, [first, *reasons, link])
