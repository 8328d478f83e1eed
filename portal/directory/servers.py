"""The LDAP servers of a site: TLS, timeouts, and which one to ask.

Everything here blocks and runs in worker threads; ``authenticator.py`` keeps it off the event
loop. ``ldap3`` verifies no certificate by default and follows referrals with the same password:
both are turned around here.
"""

from __future__ import annotations

import logging
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

import ldap3
from ldap3.core.exceptions import LDAPException
from ldap3.protocol.formatters.formatters import format_sid

from ..errors import ConfigurationError, DirectoryUnavailable
from .refusal import POLICY, Refusal, refusal_of

_PAGED = "1.2.840.113556.1.4.319"  # the control of RFC 2696

T = TypeVar("T")
Protection = Literal["verified", "unverified", "none"]

NO_ANSWER = (
    "The directory does not answer, so nobody can log in at the moment. "
    "Running sessions go on. Try again in a few minutes."
)

# Result codes of a bind that mean "not with this name and password" (RFC 4511, appendix A.1):
# constraintViolation and unwillingToPerform are what some servers say for a locked account.
_REFUSED = {
    ldap3.core.results.RESULT_CONSTRAINT_VIOLATION,
    ldap3.core.results.RESULT_NO_SUCH_OBJECT,
    ldap3.core.results.RESULT_INVALID_DN_SYNTAX,
    ldap3.core.results.RESULT_INAPPROPRIATE_AUTHENTICATION,
    ldap3.core.results.RESULT_INVALID_CREDENTIALS,
    ldap3.core.results.RESULT_INSUFFICIENT_ACCESS_RIGHTS,
    ldap3.core.results.RESULT_UNWILLING_TO_PERFORM,
}

# What OpenSSL says with VERIFY_X509_STRICT alone, which Python 3.13's default context sets.
_STRICT = (
    "Key Identifier",
    "Basic Constraints",
    "key usage extension",
    "Subject Alt Name",
    "empty subject",
    "Pathlen",
    "Path length",
)

_SEARCH_REFUSED = {
    ldap3.core.results.RESULT_INSUFFICIENT_ACCESS_RIGHTS,
    ldap3.core.results.RESULT_UNWILLING_TO_PERFORM,
}


class ServerTrouble(Exception):
    """This server gave no usable answer; another one may. Never leaves this package."""


class SearchRefused(ServerTrouble):
    """The server answers, but lets who is bound search nothing."""


@dataclass(frozen=True)
class Entry:
    """One entry: its ``dn`` and its attributes, by lower-case name."""

    dn: str
    attributes: Mapping[str, tuple[str, ...]]

    def first(self, name: str) -> str | None:
        """The first value of an attribute, None when it has none."""
        values = self.attributes.get(name.lower())
        return values[0] if values else None


class Session:
    """One open connection, its TLS already up."""

    def __init__(self, connection: ldap3.Connection) -> None:
        self._connection = connection
        self.refusal: Refusal | None = None  # what the last bind's answer said beyond yes and no

    def bind(self, name: str, password: str) -> bool:
        """Whether the server takes this name (a DN or a UPN) and password.

        Raises ValueError for an empty password: servers answer it with success and an anonymous
        session (RFC 4513, 5.1.2). Raises ServerTrouble for every answer but yes and no.
        """
        if not name or not password:
            raise ValueError("a bind needs a name and a password")
        try:
            self._connection.rebind(
                name,
                password,
                authentication=ldap3.SIMPLE,
                read_server_info=False,
                controls=[(POLICY, False, None)],
            )
        except LDAPException as error:
            raise ServerTrouble(f"bind: {error}") from error
        finally:
            self._connection.password = None
        code = self._connection.result["result"]
        self.refusal = refusal_of(self._connection.result)
        if code in _REFUSED:
            return False
        if code != ldap3.core.results.RESULT_SUCCESS:
            raise ServerTrouble(f"bind: {_words(self._connection.result)}")
        return True

    def search(
        self,
        base: str,
        filter: str,
        attributes: Sequence[str],
        only_base: bool = False,
        page: int = 0,
    ) -> list[Entry]:
        """Entries under ``base`` (or ``base`` itself) that match; none when there is no ``base``.
        With ``page`` they are asked for so many at a time (RFC 2696), since servers limit answers.

        Raises ServerTrouble when the answer is an error or cut short: half an answer would
        silently take groups away.
        """
        found: list[Entry] = []
        cookie: bytes | None = None
        while True:
            found += self._page(base, filter, attributes, only_base, page, cookie)
            controls = self._connection.result.get("controls") or {}
            cookie = controls.get(_PAGED, {}).get("value", {}).get("cookie")
            if not page or not cookie:
                return found

    def _page(
        self,
        base: str,
        filter: str,
        attributes: Sequence[str],
        only_base: bool,
        page: int,
        cookie: bytes | None,
    ) -> list[Entry]:
        """One answer, which is all of it where ``page`` is 0."""
        try:
            self._connection.search(
                base,
                filter,
                search_scope=ldap3.BASE if only_base else ldap3.SUBTREE,
                attributes=list(attributes),
                dereference_aliases=ldap3.DEREF_NEVER,
                paged_size=page or None,
                paged_cookie=cookie,
            )
        except LDAPException as error:
            raise ServerTrouble(f"search: {error}") from error
        code = self._connection.result["result"]
        if code == ldap3.core.results.RESULT_NO_SUCH_OBJECT:
            return []
        if code != ldap3.core.results.RESULT_SUCCESS:
            refused = code in _SEARCH_REFUSED
            kind = SearchRefused if refused else ServerTrouble
            raise kind(f"search below {base}: {_words(self._connection.result)}")
        return [
            Entry(
                found["dn"],
                {
                    name.lower(): tuple(_text(name, value) for value in values)
                    for name, values in found["raw_attributes"].items()
                },
            )
            for found in self._connection.response or ()
            if found["type"] == "searchResEntry"  # the rest are referrals; they are not followed
        ]


@dataclass
class Servers:
    """Servers that hold the same tree, tried in order until one answers.

    ``uris``: ``ldap://host[:port]`` (StartTLS before anything else is sent, unless
    ``protection`` is "none") or ``ldaps://host[:port]``. Timeouts in whole seconds: ldap3
    accepts no fractions. A server that failed is asked last for ``avoid_for`` seconds, so that
    one hanging server costs one timeout and not one each login.

    Raises ConfigurationError for a URI that is none, or a CA file that cannot be used.
    """

    uris: Sequence[str]
    protection: Protection = "verified"
    ca_file: str = ""
    connect_timeout: int = 3
    receive_timeout: int = 5
    avoid_for: float = 30.0
    log: logging.Logger | logging.LoggerAdapter[Any] = field(
        default_factory=lambda: logging.getLogger(__name__)
    )

    def __post_init__(self) -> None:
        self._failed: dict[str, float] = {}
        self._addresses = {uri: _address(uri) for uri in self.uris}
        self._context = _context(self.protection, self.ca_file)

    def ask(self, work: Callable[[Session], T], deadline: float) -> T:
        """``work``'s answer from the first server that gives one.

        ``work`` gets an open Session and may run once for each server, so it only binds and
        reads. After ``deadline`` (time.monotonic()) no other server is tried. Raises
        DirectoryUnavailable.
        """
        for uri in self._in_order():
            if time.monotonic() >= deadline:
                self.log.warning("LDAP: no time left to ask %s", uri)
                break
            try:
                with self.open(uri) as session:
                    answer = work(session)
            except ServerTrouble as error:
                self._failed[uri] = time.monotonic()
                self.log.warning("LDAP server %s: %s", uri, error)
            else:
                self._failed.pop(uri, None)
                return answer
        raise DirectoryUnavailable(NO_ANSWER)

    @contextmanager
    def open(self, uri: str) -> Iterator[Session]:
        """A Session with one server, nobody bound yet. Raises ServerTrouble."""
        host, port, ldaps = self._addresses[uri]
        server = ldap3.Server(
            host,
            port,
            use_ssl=ldaps,
            tls=_Tls(self._context),
            get_info=ldap3.NONE,
            connect_timeout=self.connect_timeout,
        )
        connection = ldap3.Connection(
            server,
            client_strategy=ldap3.SYNC,
            authentication=ldap3.ANONYMOUS,
            receive_timeout=self.receive_timeout,
            # A referral would send the password to a server that the site did not name.
            auto_referrals=False,
            check_names=False,
            read_only=True,
            raise_exceptions=False,
        )
        try:
            try:
                connection.open(read_server_info=False)
                if not ldaps and self.protection != "none":
                    connection.start_tls(read_server_info=False)
                    if not connection.tls_started:
                        raise ServerTrouble("StartTLS did not start")
            except (LDAPException, OSError) as error:
                raise ServerTrouble(_reason(error)) from error
            yield Session(connection)
        finally:
            _close(connection)

    def _in_order(self) -> list[str]:
        """Servers that did not fail lately first; each part in the site's order."""
        now = time.monotonic()
        return sorted(self.uris, key=lambda uri: now - self._failed.get(uri, -1e9) < self.avoid_for)


class _Tls(ldap3.Tls):
    """ldap3's TLS with a context of our own.

    ldap3 compares names with ``ssl.match_hostname``, which Python 3.12 no longer has, and its
    replacement knows no IP addresses. OpenSSL compares them itself when the context says so.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(validate=context.verify_mode)
        self._context = context

    def wrap_socket(self, connection: ldap3.Connection, do_handshake: bool = False) -> None:
        # Several small messages in turn: without this each login waits 40 ms for a delayed ACK.
        connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.socket = self._context.wrap_socket(
            connection.socket,
            do_handshake_on_connect=do_handshake,
            server_hostname=connection.server.host,
        )


def _context(protection: Protection, ca_file: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca_file or None)
    except OSError as error:  # ssl.SSLError is one
        raise ConfigurationError(
            f"LDAPAuthenticator.ca_file: {ca_file} holds no readable certificates ({error})."
        ) from error
    if protection != "verified":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _address(uri: str) -> tuple[str, int, bool]:
    """Host, port and whether it is LDAPS."""
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
        parts = urlsplit("")
    if parts.scheme not in ("ldap", "ldaps") or not host or parts.path.strip("/"):
        raise ConfigurationError(
            f"LDAPAuthenticator.servers: '{uri}' is not of the form ldaps://host[:port] "
            "or ldap://host[:port]."
        )
    ldaps = parts.scheme == "ldaps"
    return host, port or (636 if ldaps else 389), ldaps


def _close(connection: ldap3.Connection) -> None:
    with suppress(LDAPException, OSError, AttributeError):
        connection.unbind()
    # unbind leaves the socket of a connection that never came up open; closing twice is harmless.
    connection.strategy._close_socket()


def _text(name: str, value: bytes) -> str:
    """A value as text; the SID of Active Directory, which is binary, as S-1-5-…"""
    if name.lower() == "objectsid":
        return str(format_sid(value))
    return value.decode("utf-8", "replace")


def _reason(error: BaseException) -> str:
    words = str(error) or type(error).__name__
    if any(sign in words for sign in _STRICT):
        words += (
            ". Python 3.13 and newer take certificates only that follow RFC 5280 strictly, which "
            "those that Samba makes for itself do not: give the server one of your own authority"
        )
    return words


def _words(result: Mapping[str, Any]) -> str:
    return f"{result.get('description')} {result.get('message') or ''}".strip()
