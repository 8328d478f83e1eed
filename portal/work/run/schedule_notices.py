"""Mail about schedules of runs: a time was missed, or its start was refused."""

from __future__ import annotations

from portal.models.session.run_schedule import RunSchedule
from portal.notices.post import Mail, MailQueue
from portal.notices.words import one_line
from portal.store import Store

from .tables.schedules import RunScheduleTable


class ScheduleNotices:
    """Sender of the mail about schedules; each is open in the database until it was sent."""

    def __init__(self, post: MailQueue, store: Store) -> None:
        self._post, self._store = post, store

    async def send_due(self, now: float) -> None:
        """Send what is open at ``now`` (Unix seconds). Raises StoreUnavailable."""
        for schedule in await self._store.table(RunScheduleTable).untold():
            mail = mail_of(schedule, self._post.pages)
            if self._post.waits(mail.key):
                continue
            if await self._post.send(mail, now) is not None:
                await self._store.table(RunScheduleTable).mark_notified(schedule)


def mail_of(schedule: RunSchedule, pages: str) -> Mail:
    """Return the mail about ``schedule.untold``. ``pages``: address of the service with a final
    slash."""
    name = one_line(schedule.name)
    state = "is paused" if schedule.paused else "did not start a run"
    return Mail(
        key=f"schedule.{schedule.id}.{schedule.last_at or 0:.0f}",
        user=schedule.user,
        subject=f"Your schedule of '{name}' {state}",
        paragraphs=[
            one_line(" ".join(schedule.untold.split()), 1000),
            f"Your schedules:\n{pages}runs",
        ],
    )
