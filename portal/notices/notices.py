"""Sends the mails that people asked for. One a service."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from traitlets import Bool, Enum, Float, Instance, Integer, Unicode, default
from traitlets.config import LoggingConfigurable

from portal.directory import LDAPAuthenticator
from portal.errors import (
    ConfigurationError,
    InvalidRequest,
    NotFound,
    PortalError,
    StoreUnavailable,
)
from portal.models.cluster import ClusterSnapshot
from portal.models.session import SessionRecord
from portal.store import Store

from .due import Notice, due
from .server import MailRefused, MailServer
from .words import address_of, mail

USERNAME = "{username}"
_LOOK = 5.0  # seconds between two looks at the sessions
_RETRY = (30.0, 600.0)  # seconds to the second try of a mail, and the most that it grows to
_AT_ONCE = 4  # mails that are handed over at the same time


class View(Protocol):
    """What is needed of the dashboard's view."""

    @property
    def snapshot(self) -> ClusterSnapshot: ...
    @property
    def sessions(self) -> Mapping[str, SessionRecord]: ...


class Notices(LoggingConfigurable):
    """Mail to those who want it: a session that waited has started, or is about to end.

    Nothing is sent without ``smtp_host``. Each mail is sent once, also when the service is
    restarted; while the mail server is away, it is tried again as long as it is news.
    """

    store = Instance(Store, allow_none=True, help="The database.")

    smtp_host = Unicode(
        "",
        help="""
        The site's mail server. Empty: no mail is sent, and no page offers it.

        Example::

            c.Notices.smtp_host = "smtp.example.org"
        """,
    ).tag(config=True)

    smtp_port = Integer(
        0,
        min=0,
        max=65535,
        help="""
        Its port; 0 is the usual one: 587 for "starttls", 465 for "tls", 25 for "none".

        Example::

            c.Notices.smtp_port = 2525
        """,
    ).tag(config=True)

    encryption = Enum(
        ("starttls", "tls", "none"),
        default_value="starttls",
        help="""
        How the connection is protected: "starttls" (no mail goes out where the server does not
        offer it), "tls" from the start, or "none". The server's certificate is always checked.
        With "none" no password is sent.

        Example::

            c.Notices.encryption = "tls"
        """,
    ).tag(config=True)

    ca_file = Unicode(
        "",
        help="""
        File with the certificate authorities that may vouch for the mail server. Empty: those of
        the operating system.

        Example::

            c.Notices.ca_file = "/etc/ssl/certs/example-org-ca.pem"
        """,
    ).tag(config=True)

    user = Unicode(
        "",
        help="""
        The account at the mail server; empty: it wants no login.

        Example::

            c.Notices.user = "portal"
        """,
    ).tag(config=True)

    password_file = Unicode(
        "",
        help="""
        A file with that account's password, mode 0600; it is read for each mail.

        Example::

            c.Notices.password_file = "/etc/data-scientist-portal/mail-password"
        """,
    ).tag(config=True)

    sender = Unicode(
        "",
        help="""
        The address that the mails come from; a name may stand before it.

        Example::

            c.Notices.sender = "GPU portal <gpu-portal@example.org>"
        """,
    ).tag(config=True)

    address = Unicode(
        "directory",
        help="""
        How a person's mail address is known: "directory" reads it from LDAP
        (c.LDAPAuthenticator.mail_attribute, with the search account); anything else is a pattern
        with {username}.

        Example::

            c.Notices.address = "{username}@example.org"
        """,
    ).tag(config=True)

    public_url = Unicode(
        help="""
        The portal's address as people type it, for the links in the mails. Default: what
        c.JupyterHub.public_url says.

        Example::

            c.Notices.public_url = "https://gpu.example.org/"
        """,
    ).tag(config=True)

    waited = Integer(
        120,
        min=0,
        help="""
        Seconds that a session must have waited in the queue for its start to be told: who waited
        less is still there.

        Example::

            c.Notices.waited = 300
        """,
    ).tag(config=True)

    before_end = Integer(
        15 * 60,
        min=60,
        help="""
        Seconds before a session's end at which it is told. A session that is extended gets another
        mail before its new end.

        Example::

            c.Notices.before_end = 1800
        """,
    ).tag(config=True)

    wanted = Bool(
        False,
        help="""
        Whether those get mail who never said whether they want it.

        Example::

            c.Notices.wanted = True
        """,
    ).tag(config=True)

    timeout = Float(
        20.0,
        min=1,
        help="""
        Seconds that the mail server may take for an answer.

        Example::

            c.Notices.timeout = 60
        """,
    ).tag(config=True)

    @default("public_url")
    def _default_public_url(self) -> str:
        # JupyterHub tells its services (jupyterhub/services/service.py).
        hub = os.environ.get("JUPYTERHUB_PUBLIC_HUB_URL", "")
        return hub.removesuffix("/").removesuffix("hub")

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._next: dict[tuple[str, str], float] = {}  # not tried again before; monotonic
        self._pauses: dict[tuple[str, str], float] = {}
        self._done: set[tuple[str, str]] = set()
        self._directory: LDAPAuthenticator | None = None
        self._trouble = ""
        if self.on:
            self.check_settings()

    @property
    def on(self) -> bool:
        """Whether this site sends mail."""
        return bool(self.smtp_host)

    def check_settings(self) -> None:
        """Raises ConfigurationError for settings that cannot work."""
        try:
            address_of(self.sender)
            if self.address != "directory":
                address_of(self.address.replace(USERNAME, "ada"))
        except ValueError as error:
            raise ConfigurationError(f"c.Notices.sender or c.Notices.address: {error}.") from None
        if self.address != "directory" and USERNAME not in self.address:
            raise ConfigurationError(
                f"c.Notices.address must be 'directory' or contain {USERNAME}: everybody's mail "
                "would go to one address."
            )
        if not self.public_url.startswith(("https://", "http://")):
            raise ConfigurationError(
                "c.Notices.public_url is not set: the mails need the portal's address, as "
                '"https://gpu.example.org/".'
            )
        if self.user and (self.encryption == "none" or not self.password_file):
            raise ConfigurationError(
                "c.Notices.user needs c.Notices.password_file and an encrypted connection "
                "(c.Notices.encryption)."
            )

    @property
    def server(self) -> MailServer:
        """The mail server of these settings."""
        usual = {"starttls": 587, "tls": 465, "none": 25}[str(self.encryption)]
        return MailServer(
            self.smtp_host,
            self.smtp_port or usual,
            encryption=str(self.encryption),
            ca_file=self.ca_file,
            user=self.user,
            password_file=self.password_file,
            timeout=self.timeout,
        )

    async def wishes_of(self, user: str) -> bool:
        """Whether this person gets mail. Raises StoreUnavailable."""
        assert self.store is not None
        return (await self.store.notices.wishes([user])).get(user, self.wanted)

    async def address_for(self, user: str) -> str:
        """Where this person's mail goes. Raises NotFound, DirectoryUnavailable,
        ConfigurationError."""
        if self.address != "directory":
            return self.address.replace(USERNAME, user)
        if self._directory is None:
            self._directory = LDAPAuthenticator(parent=self.parent)
        found = await self._directory.mail_of(user)
        if not found:
            raise NotFound(f"The directory has no mail address for {user}.")
        return found

    async def run(self, view: Callable[[], View | None]) -> None:
        """Look at the sessions and send, until cancelled. Without a mail server: only wait."""
        while True:
            if self.on and (newest := view()) is not None:
                await self.look(newest, time.time())
            await asyncio.sleep(_LOOK)

    async def look(self, view: View, now: float) -> None:
        """Send what is due and was not sent. Raises nothing that the next look may mend."""
        found = {
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
            for key in set(memory) - set(found):
                del memory[key]
        self._done &= set(found)
        clock = time.monotonic()
        open_ones = [
            notice
            for key, notice in found.items()
            if key not in self._done and self._next.get(key, 0.0) <= clock
        ]
        if not open_ones:
            return
        try:
            to_send = await self._claimed(open_ones, now)
        except StoreUnavailable as error:
            self._tell(f"Notices wait: {error}")
            return
        limit = asyncio.Semaphore(_AT_ONCE)
        await asyncio.gather(*(self._send(notice, now, limit) for notice in to_send))

    async def _claimed(self, notices: list[Notice], now: float) -> list[Notice]:
        """Those whose owners want them and which nobody has sent."""
        assert self.store is not None
        table = self.store.notices
        wishes = await table.wishes({notice.session.user for notice in notices})
        wanted = [one for one in notices if wishes.get(one.session.user, self.wanted)]
        unsent = await table.unsent({one.session.id for one in wanted})
        found = []
        for notice in wanted:
            if notice.key in unsent or await table.claim(*notice.key, now):
                found.append(notice)
            else:
                self._done.add(notice.key)
        return found

    async def _send(self, notice: Notice, now: float, limit: asyncio.Semaphore) -> None:
        words, again = "", False
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
            words = str(error)
        except PortalError as error:
            words, again = str(error), True
        if words:
            self._tell(f"Notice '{notice.kind}' of session {notice.session.id}: {words}")
        else:
            self._trouble = ""
            self.log.info("Notice '%s' of session %s was sent.", notice.kind, notice.session.id)
        if again:
            pause = self._pauses.get(notice.key, _RETRY[0])
            self._next[notice.key] = time.monotonic() + pause
            self._pauses[notice.key] = min(2 * pause, _RETRY[1])
        else:
            self._done.add(notice.key)
        await self._record(notice, words)

    async def _record(self, notice: Notice, words: str) -> None:
        assert self.store is not None
        try:
            await self.store.notices.outcome(*notice.key, words)
        except StoreUnavailable as error:
            self._tell(f"The outcome of a notice is not recorded: {error}")

    def _tell(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            self.log.warning("%s", trouble)
