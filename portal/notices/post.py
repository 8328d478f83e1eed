"""Mails that are asked for one by one: each is tried until the mail server has it or refuses it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from portal.errors import Conflict, InvalidRequest, NotFound, PortalError

from .notices import Notices
from .server import MailRefused
from .words import envelope, one_line

_RETRY = (30.0, 600.0)  # seconds to the second try of a mail, and the most that it grows to


class Mail(NamedTuple):
    """Mail to ``user``. ``key``: of letters, digits, dots and dashes; it is the Message-ID too, so
    that a mail that is sent again by a service that was killed meanwhile counts as the same."""

    key: str
    user: str
    subject: str
    paragraphs: Sequence[str]


class MailQueue:
    """Queue of mails to the site's mail server, and the times of their next tries."""

    def __init__(self, notices: Notices, log: Any) -> None:
        self._notices, self._log = notices, log
        self._next: dict[str, float] = {}  # not tried again before; monotonic
        self._pauses: dict[str, float] = {}
        self._trouble = ""

    @property
    def on(self) -> bool:
        """Return True if this site sends mail."""
        return self._notices.on

    @property
    def pages(self) -> str:
        """Public address of the service, with a final slash."""
        return f"{self._notices.public_url.rstrip('/')}/services/portal/"

    async def check(self, user: str) -> None:
        """Raise Conflict if this site sends no mail, NotFound if the user has no address;
        DirectoryUnavailable, ConfigurationError."""
        if not self.on:
            raise Conflict("This site sends no mail. Omit the notification.")
        await self._notices.address_for(user)

    def waits(self, key: str) -> bool:
        """Return True if the mail with this key was tried a moment ago."""
        return self._next.get(key, 0.0) > time.monotonic()

    async def send(self, mail: Mail, now: float) -> str | None:
        """Hand a mail over. Return "" once the mail server has it, a sentence if it will never
        take it, None if it is to be tried again. ``now``: Unix seconds."""
        notices = self._notices
        footer = f"This mail is from {one_line(notices.public_url)}. You requested it."
        try:
            message = envelope(
                mail.subject,
                [*mail.paragraphs, footer],
                sender=notices.sender,
                to=await notices.address_for(mail.user),
                now=now,
                id_=mail.key,
            )
            await notices.server.send(message)
        except (MailRefused, NotFound, InvalidRequest) as error:
            self._complain(f"Mail {mail.key}: {error}")
            self._forget(mail.key)
            return str(error)
        except PortalError as error:
            self._complain(f"Mail {mail.key}: {error}")
            pause = self._pauses.get(mail.key, _RETRY[0])
            self._next[mail.key] = time.monotonic() + pause
            self._pauses[mail.key] = min(2 * pause, _RETRY[1])
            return None
        self._trouble = ""
        self._forget(mail.key)
        self._log.info("Mail %s was sent.", mail.key)
        return ""

    def _forget(self, key: str) -> None:
        self._next.pop(key, None)
        self._pauses.pop(key, None)

    def _complain(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            self._log.warning("%s", trouble)
