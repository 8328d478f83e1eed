"""Sender of the mails that users asked for. One per service."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from traitlets import Any as AnyTrait
from traitlets import Instance

from portal.directory import Directory
from portal.errors import (
    ConfigurationError,
    InvalidRequest,
    NotFound,
    PortalError,
    StoreUnavailable,
)
from portal.periodic import Periodic
from portal.sessions.view import View
from portal.store import Store

from .due import Notice, due
from .server import MailRefused
from .settings import USERNAME, NoticeSettings
from .words import mail

_LOOK = 5.0  # seconds between two looks at the sessions
_RETRY = (30.0, 600.0)  # seconds to the second try of a mail, and the most that it grows to
_AT_ONCE = 4  # mails that are handed over at the same time


class Notices(NoticeSettings):
    """Mail to users who want it: a session that waited has started, or is about to end.

    Nothing is sent without ``smtp_host``. Each mail is sent once, even if the service restarts;
    while the mail server is away, the mail is retried as long as it is news.
    """

    store = Instance(Store, allow_none=True, help="The database.")
    directory: Directory | None = AnyTrait(None, help="Directory of mail addresses.")  # type: ignore[assignment]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._next: dict[tuple[str, str], float] = {}  # not tried again before; monotonic
        self._pauses: dict[tuple[str, str], float] = {}
        self._done: set[tuple[str, str]] = set()
        self._trouble = ""
        if self.on:
            self.check_settings()

    async def wishes_of(self, user: str) -> bool:
        """Return whether this person gets mail. Raises StoreUnavailable."""
        assert self.store is not None
        return (await self.store.notices.wishes([user])).get(user, self.wanted)

    async def address_for(self, user: str) -> str:
        """Return the person's mail address. Raises NotFound, Unavailable, ConfigurationError."""
        if self.address != "directory":
            return self.address.replace(USERNAME, user)
        if self.directory is None:
            raise ConfigurationError("No directory with mail addresses is configured.")
        address = await self.directory.mail_of(user)
        if not address:
            raise NotFound(f"The directory has no mail address for {user}.")
        return address

    async def run(self, view: Callable[[], View | None]) -> None:
        """Look at the sessions and send mails, until cancelled; only wait without a server."""

        async def send_to_view() -> None:
            if self.on and (newest := view()) is not None:
                await self.send_due(newest, time.time())

        await Periodic("The mail task", send_to_view, _LOOK, self.log).run()

    async def send_due(self, view: View, now: float) -> None:
        """Send the notices that are due and not sent yet. Errors that the next look may mend are
        not raised."""
        notices = {
            notice.key: notice
            for notice in due(
                view.sessions,
                view.snapshot.jobs,
                now,
                waited=self.waited,
                before_end=self.before_end,
            )
        }
        for memory in (self._next, self._pauses):
            for key in set(memory) - set(notices):
                del memory[key]
        self._done &= set(notices)
        clock = time.monotonic()
        pending = [
            notice
            for key, notice in notices.items()
            if key not in self._done and self._next.get(key, 0.0) <= clock
        ]
        if not pending:
            return
        try:
            to_send = await self._claimed(pending, now)
        except StoreUnavailable as error:
            self._tell(f"Notices are delayed: {error}")
            return
        limit = asyncio.Semaphore(_AT_ONCE)
        await asyncio.gather(*(self._send(notice, now, limit) for notice in to_send))

    async def _claimed(self, notices: list[Notice], now: float) -> list[Notice]:
        """Claim and return the notices whose owners want them and which nobody has sent."""
        assert self.store is not None
        table = self.store.notices
        wishes = await table.wishes({notice.session.user for notice in notices})
        wanted = [entry for entry in notices if wishes.get(entry.session.user, self.wanted)]
        unsent = await table.unsent({entry.session.id for entry in wanted})
        claimed = []
        for notice in wanted:
            if notice.key in unsent or await table.claim(*notice.key, now):
                claimed.append(notice)
            else:
                self._done.add(notice.key)
        return claimed

    async def _send(self, notice: Notice, now: float, limit: asyncio.Semaphore) -> None:
        problem, again = "", False
        try:
            async with limit:
                message = mail(
                    notice,
                    sender=self.sender,
                    to=await self.address_for(notice.session.user),
                    public_url=self.public_url.rstrip("/") + "/",
                    now=now,
                    portal=self.public_url,
                )
                await self.server.send(message)
        except (MailRefused, NotFound, InvalidRequest) as error:
            problem = str(error)
        except PortalError as error:
            problem, again = str(error), True
        if problem:
            self._tell(f"Notice '{notice.kind}' of session {notice.session.id}: {problem}")
        else:
            self._trouble = ""
            self.log.info("Notice '%s' of session %s was sent.", notice.kind, notice.session.id)
        if again:
            pause = self._pauses.get(notice.key, _RETRY[0])
            self._next[notice.key] = time.monotonic() + pause
            self._pauses[notice.key] = min(2 * pause, _RETRY[1])
        else:
            self._done.add(notice.key)
        await self._record(notice, problem)

    async def _record(self, notice: Notice, problem: str) -> None:
        assert self.store is not None
        try:
            await self.store.notices.outcome(*notice.key, problem)
        except StoreUnavailable as error:
            self._tell(f"The outcome of a notice is not recorded: {error}")

    def _tell(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            self.log.warning("%s", trouble)
