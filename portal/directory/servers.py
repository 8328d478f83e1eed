"""LDAP servers of a site: TLS, timeouts and failover.

Everything here blocks and runs in worker threads; ``authenticator.py`` keeps it off the event
loop. By default, ``ldap3`` verifies no certificates and follows referrals with the same password;
both are changed here.
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
from .measured import ANSWERED, FAILED, LDAP_SECONDS, note_certificate
from .refusal import NO_ANSWER, POLICY, Refusal, refusal_of

_PAGED = "1.2.840.113556.1.4.319"  # the control of RFC 2696

T = TypeVar("T")
Protection = Literal["verified", "unverified", "none"]

# Result codes of a bind that mean "not with this name and password" (RFC 4511, appendix A.1):
# some servers return constraintViolation or unwillingToPerform for a locked account.
_REFUSED = {
    ldap3.core.results.RESULT_CONSTRAINT_VIOLATION,
    ldap3.core.results.RESULT_NO_SUCH_OBJECT,
    ldap3.core.results.RESULT_INVALID_DN_SYNTAX,
    ldap3.core.results.RESULT_INAPPROPRIATE_AUTHENTICATION,
    ldap3.core.results.RESULT_INVALID_CREDENTIALS,
    ldap3.core.results.RESULT_INSUFFICIENT_ACCESS_RIGHTS,
    ldap3.core.results.RESULT_UNWILLING_TO_PERFORM,
}

# Errors of OpenSSL with VERIFY_X509_STRICT only, which Python 3.13's default context sets.
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
    """No usable answer from this server; another one may give one. Never leaves this package."""


class SearchRefused(ServerTrouble):
    """Search refused by a server that answers, to the account that is bound."""


@dataclass(frozen=True)
class Entry:
    """Entry with its ``dn`` and its attributes, by lower-case name."""

    dn: str
    attributes: Mapping[str, tuple[str, ...]]

    def first(self, name: str) -> str | None:
        """Return the first value of an attribute; None if it has none."""
        values = self.attributes.get(name.lower())
        return values[0] if values else None


class Session:
    """Open connection, with TLS already up."""

    def __init__(self, connection: ldap3.Connection) -> None:
        self._connection = connection
        self.refusal: Refusal | None = None  # reason in the result of the last bind

    def bind(self, name: str, password: str) -> bool:
        """Bind as ``name`` (a DN or a UPN); return True if the server accepts name and password.

        Raises ValueError for an empty password: servers answer it with success and an anonymous
        session (RFC 4513, 5.1.2). Raises ServerTrouble for any answer but yes or no.
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
        """Return matching entries under ``base`` (or ``base`` itself); none if it does not exist.

        ``page``: entries to request at a time (RFC 2696), since servers limit answers; 0: all at
        once. Raises ServerTrouble if the answer is an error or truncated, because a partial answer
        would silently take groups away.
        """
        entries: list[Entry] = []
        cookie: bytes | None = None
        while True:
            entries += self._page(base, filter, attributes, only_base, page, cookie)
            controls = self._connection.result.get("controls") or {}
            cookie = controls.get(_PAGED, {}).get("value", {}).get("cookie")
            if not page or not cookie:
                return entries

    def _page(
        self,
        base: str,
        filter: str,
        attributes: Sequence[str],
        only_base: bool,
        page: int,
        cookie: bytes | None,
    ) -> list[Entry]:
        """Return a page of entries; all of them if ``page`` is 0."""
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
                item["dn"],
                {
                    name.lower(): tuple(_text(name, value) for value in values)
                    for name, values in item["raw_attributes"].items()
                },
            )
            for item in self._connection.response or ()
            if item["type"] == "searchResEntry"  # the rest are referrals; they are not followed
        ]


@dataclass
class Servers:
    """Servers that hold the same tree, tried in order until one answers.

    Raises ConfigurationError for an invalid URI or a CA file that cannot be used. Timeouts are in
    whole seconds: ldap3 accepts no fractions.
    """

    # ``ldap://host[:port]`` (StartTLS before anything else is sent, unless ``protection`` is
    # "none") or ``ldaps://host[:port]``.
    uris: Sequence[str]
    protection: Protection = "verified"
    ca_file: str = ""
    connect_timeout: int = 3  # a server that is up accepts within milliseconds; then the next one
    receive_timeout: int = 5
    # Seconds for which a server that failed is asked last, so that a hanging server costs a single
    # timeout, not one per login.
    avoid_for: float = 30.0
    log: logging.Logger | logging.LoggerAdapter[Any] = field(
        default_factory=lambda: logging.getLogger(__name__)
    )

    def __post_init__(self) -> None:
        self._failed: dict[str, float] = {}
        self._addresses = {uri: _address(uri) for uri in self.uris}
        self._context = _context(self.protection, self.ca_file)

    def ask(self, work: Callable[[Session], T], deadline: float) -> T:
        """Return ``work``'s result from the first server that gives one.

        ``work`` gets an open Session and may run once per server, so it must only bind and
        read. After ``deadline`` (time.monotonic()) no other server is tried. Raises
        DirectoryUnavailable.
        """
        for uri in self._in_order():
            if time.monotonic() >= deadline:
                self.log.warning("LDAP: no time left to query %s", uri)
                break
            began, outcome = time.monotonic(), ANSWERED
            try:
                with self.open(uri) as session:
                    result = work(session)
            except ServerTrouble as error:
                outcome = FAILED
                self._failed[uri] = time.monotonic()
                self.log.warning("LDAP server %s: %s", uri, error)
            else:
                self._failed.pop(uri, None)
                return result
            finally:
                LDAP_SECONDS.labels(outcome).observe(time.monotonic() - began)
        raise DirectoryUnavailable(NO_ANSWER)

    @contextmanager
    def open(self, uri: str) -> Iterator[Session]:
        """Yield a Session with a server, not bound yet. Raises ServerTrouble."""
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
            note_certificate(host, connection.socket)
            yield Session(connection)
        finally:
            _close(connection)

    def _in_order(self) -> list[str]:
        """Return the servers in the site's order, those that failed lately last."""
        now = time.monotonic()
        return sorted(self.uris, key=lambda uri: now - self._failed.get(uri, -1e9) < self.avoid_for)


class _Tls(ldap3.Tls):
    """ldap3's TLS with the portal's own context.

    ldap3 checks host names with ``ssl.match_hostname``, which Python 3.12 removed, and its
    replacement does not support IP addresses. OpenSSL checks them itself if the context says so.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(validate=context.verify_mode)
        self._context = context

    def wrap_socket(self, connection: ldap3.Connection, do_handshake: bool = False) -> None:
        # Without this, each login's series of small messages waits 40 ms for a delayed ACK.
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
    """Parse a URI into host, port and True for LDAPS. Raises ConfigurationError."""
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
    # unbind leaves the socket open if the connection never came up; closing twice is harmless.
    connection.strategy._close_socket()


def _text(name: str, value: bytes) -> str:
    """Decode a value as text; Active Directory's binary SID as S-1-5-…"""
    if name.lower() == "objectsid":
        return str(format_sid(value))
    return value.decode("utf-8", "replace")


def _reason(error: BaseException) -> str:
    reason = str(error) or type(error).__name__
    if any(part in reason for part in _STRICT):
        reason += (
            ". Python 3.13 and newer accept only certificates that strictly follow RFC 5280. "
            "Certificates that Samba creates do not: give the server a certificate of your "
            "own authority"
        )
    return reason


def _words(result: Mapping[str, Any]) -> str:
    return f"{result.get('description')} {result.get('message') or ''}".strip()
