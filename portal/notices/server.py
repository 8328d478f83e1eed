"""Client of the site's mail server: one connection for each mail, encrypted and verified unless a
setting says otherwise."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import aiosmtplib

from portal.errors import ConfigurationError, Unavailable
from portal.models.plain_text import escaped


class MailRefused(Unavailable):
    """Permanent refusal of this mail by the mail server: a retry would bring the same answer."""


@dataclass(frozen=True)
class MailServer:
    """Mail server. ``encryption``: "starttls", "tls" or "none"; ``timeout`` in seconds."""

    host: str
    port: int
    encryption: str = "starttls"
    ca_file: str = ""
    user: str = ""
    password_file: str = ""
    timeout: float = 20.0

    async def send(self, message: EmailMessage) -> None:
        """Hand the mail over. Raises Unavailable if it may work later, MailRefused if not, and
        ConfigurationError; no message contains a password."""
        with self._in_words():
            await aiosmtplib.send(message, **self._options())

    async def check(self) -> None:
        """Connect, encrypt and log in, and send nothing. Raises as ``send`` does."""
        client = aiosmtplib.SMTP(**self._options())
        with contextlib.closing(client), self._in_words():
            await client.connect()
            await client.quit()

    @contextlib.contextmanager
    def _in_words(self) -> Iterator[None]:
        """Convert the server's errors to those of ``send``."""
        try:
            yield
        except aiosmtplib.SMTPRecipientsRefused as error:
            codes = [refusal.code for refusal in error.recipients]
            raise self._error(error, codes[0] if codes else 0) from None
        except aiosmtplib.SMTPResponseException as error:
            raise self._error(error, error.code) from None
        except (aiosmtplib.SMTPException, OSError, ssl.SSLError) as error:
            raise Unavailable(
                f"The mail server {self.host} cannot be used: {_words_of(error)}"
            ) from None

    def _error(self, error: Exception, code: int) -> Unavailable:
        # RFC 5321, 4.2.1: 4yz is transient, 5yz permanent. Errors of the login can be mended.
        for_good = 500 <= code < 600 and code not in (530, 534, 535, 538)
        kind = MailRefused if for_good else Unavailable
        return kind(f"The mail server {self.host} answered {code}: {_words_of(error)}")

    def _options(self) -> dict[str, Any]:
        encrypted = self.encryption != "none"
        try:
            context = ssl.create_default_context(cafile=self.ca_file or None) if encrypted else None
        except OSError as error:
            raise ConfigurationError(
                f"c.Notices.ca_file cannot be read: {self.ca_file} ({error.strerror})."
            ) from None
        return {
            "hostname": self.host,
            "port": self.port,
            "use_tls": self.encryption == "tls",
            # Not None, which would use STARTTLS if the server offers it.
            "start_tls": self.encryption == "starttls",
            "tls_context": context,
            "username": self.user or None,
            "password": self._password() if self.user else None,
            "timeout": self.timeout,
        }

    def _password(self) -> str:
        try:
            password = Path(self.password_file).read_text().strip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise ConfigurationError(
                f"c.Notices.password_file cannot be read: {self.password_file} ({reason})."
            ) from None
        return password


def _words_of(error: Exception) -> str:
    """Return the error on one line, cut at 300 characters."""
    text = getattr(error, "message", None) or str(error) or type(error).__name__
    return " ".join(escaped(str(text)).split())[:300]
