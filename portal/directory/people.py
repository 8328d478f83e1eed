"""People in the directory: look-ups and password checks. All calls block."""

from __future__ import annotations

import logging
import pwd
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ldap3.core.exceptions import LDAPException
from ldap3.utils.conv import escape_filter_chars
from ldap3.utils.dn import escape_rdn, parse_dn

from ..errors import NotAllowed, PortalError
from .filters import USERNAME
from .groups import PRIMARY_GROUP, Groups, primary_group
from .refusal import READS_NOTHING
from .servers import Entry, SearchRefused, Servers, ServerTrouble, Session

T = TypeVar("T")

# ACCOUNTDISABLE, 2, is tested with Active Directory's LDAP_MATCHING_RULE_BIT_AND.
_ENABLED_PERSON = "(objectCategory=person)(!(userAccountControl:1.2.840.113556.1.4.803:=2))"


@dataclass(frozen=True)
class DirectoryPerson:
    """Person in the directory. ``name``: the name of their account (``account_of``)."""

    name: str
    dn: str
    groups: tuple[str, ...] = ()
    uid: int | None = None
    gid: int | None = None
    home: str | None = None
    mail: str | None = None


@dataclass(frozen=True)
class People:
    """Search for people below ``base``, and their logins.

    With ``bind_names`` (a DN or UPN with ``{username}``) a login binds as that name; without, the
    person is searched for first, and the login binds as the DN found. ``search_name`` and
    ``search_password`` are the search account, if there is one.
    """

    servers: Servers
    groups: Groups
    base: str
    filter: str = "(uid={username})"
    name_attribute: str = "uid"
    mail_attribute: str = "mail"
    bind_names: Sequence[str] = ()
    search_name: str = ""
    search_password: Callable[[], str] | None = None
    search_anonymously: bool = False
    log: logging.Logger | logging.LoggerAdapter[Any] = field(
        default_factory=lambda: logging.getLogger(__name__)
    )

    def log_in(self, name: str, password: str, deadline: float) -> DirectoryPerson | None:
        """Return the person if name and password belong together, else None.

        ``deadline`` is a time.monotonic(). Raises DirectoryUnavailable; ConfigurationError if the
        search account's password file cannot be read; NotAllowed, with a sentence for the person,
        if the password is right but the directory requires something else first.
        """
        if not name or not password or "\0" in password:
            # A server written in C may end the password at a NUL, which can leave an empty one.
            return None
        by = self._bind_as_user if self.bind_names else self._search_then_bind
        return self.servers.ask(lambda session: by(session, name, password), deadline)

    def look_up(self, name: str, deadline: float) -> DirectoryPerson | None:
        """Return the person ``name``, read with the search account; None if not there (any more).

        Raises as log_in does.
        """

        def work(session: Session) -> DirectoryPerson | None:
            entry = self._find(session, name)
            return self._person(session, entry, name) if entry else None

        return self.ask(work, deadline)

    def ask(self, work: Callable[[Session], T], deadline: float) -> T:
        """Return the result of ``work``, run as the search account. Raises as log_in does."""

        def bound(session: Session) -> T:
            self._as_search_account(session)
            return work(session)

        return self.servers.ask(bound, deadline)

    @property
    def can_look_up(self) -> bool:
        """True if people can be read without their password."""
        return bool(self.search_name) or self.search_anonymously

    def trouble_with(self, uri: str) -> str | None:
        """Return the problem of a server, in words; None if it works."""
        try:
            with self.servers.open(uri) as session:
                self._as_search_account(session)
        except (ServerTrouble, PortalError) as error:
            return str(error)
        return None

    # -- the two ways in -----------------------------------------------------------------------

    def _search_then_bind(
        self, session: Session, name: str, password: str
    ) -> DirectoryPerson | None:
        self._as_search_account(session)
        entry = self._find(session, name)
        if entry is None or not self._bind(session, entry.dn, password):
            return None
        return self._person_after_bind(session, entry, name)

    def _bind_as_user(self, session: Session, name: str, password: str) -> DirectoryPerson | None:
        for template in self.bind_names:
            is_dn = "=" in template
            bind_name = template.replace(USERNAME, escape_rdn(name) if is_dn else name)
            if not self._bind(session, bind_name, password):
                continue
            try:
                entry = self._find(session, name, bind_name if is_dn else None)
            except SearchRefused as error:
                self.log.warning("LDAP: %s: %s (%s)", bind_name, READS_NOTHING.reason, error)
                raise NotAllowed(READS_NOTHING.sentence) from error
            if entry is None:
                self.log.warning(
                    "LDAP: %s can bind, but no entry that this account can read matches "
                    "people_filter; refused",
                    bind_name,
                )
                return None
            return self._person_after_bind(session, entry, name)
        return None

    def _bind(self, session: Session, bind_name: str, password: str) -> bool:
        """Return True if this is the person's password. Raises NotAllowed if that is not enough."""
        right = session.bind(bind_name, password)
        if refusal := session.refusal:
            self.log.warning("LDAP: %s cannot sign in: %s", bind_name, refusal.reason)
            if refusal.sentence:
                raise NotAllowed(refusal.sentence)
        return right and session.refusal is None

    def _person_after_bind(self, session: Session, entry: Entry, name: str) -> DirectoryPerson:
        """Read the person with the search account, if there is one: it sees all of their groups."""
        if self.search_name:
            self._as_search_account(session)
        return self._person(session, entry, name)

    def person(self, name: str) -> str:
        """Return the filter for the person with this name."""
        return self._enabled(self.filter.replace(USERNAME, escape_filter_chars(name)))

    def anyone(self) -> str:
        """Return the filter for everyone who may be a person of the portal."""
        return self._enabled(self.filter.replace(USERNAME, "*"))

    def _enabled(self, filter: str) -> str:
        """Return ``filter``, in Active Directory restricted to enabled people: groups and
        computers have account names too, and disabled people keep theirs."""
        return f"(&{_ENABLED_PERSON}{filter})" if self.groups.nesting == "ad" else filter

    # -- reading -------------------------------------------------------------------------------

    def _as_search_account(self, session: Session) -> None:
        if not self.search_name:
            return  # nobody is bound yet: the session is anonymous
        assert self.search_password is not None
        if not session.bind(self.search_name, self.search_password()):
            self.log.error(
                "LDAP: the search account %s is refused; check search_bind_dn and "
                "search_password_file",
                self.search_name,
            )
            raise ServerTrouble("the search account is refused")

    def _find(self, session: Session, name: str, dn: str | None = None) -> Entry | None:
        """Return the entry of ``name`` below ``base``, or at ``dn``; None if none or ambiguous."""
        filter = self.person(name)
        attributes = [self.name_attribute, "uidNumber", "gidNumber", "homeDirectory"]
        attributes += [self.mail_attribute, *PRIMARY_GROUP]
        entries = session.search(dn or self.base, filter, attributes, only_base=dn is not None)
        if len(entries) > 1:
            self.log.warning("LDAP: %d entries match the user name %s; refused", len(entries), name)
            return None
        return entries[0] if entries else None

    def _person(self, session: Session, entry: Entry, typed: str) -> DirectoryPerson:
        name, gid = self.name_of(entry, typed), _number(entry.first("gidNumber"))
        return DirectoryPerson(
            name=account_of(entry, name),
            dn=entry.dn,
            groups=self.groups.groups_of(session, entry.dn, name, primary_group(entry), gid),
            uid=_number(entry.first("uidNumber")),
            gid=gid,
            home=entry.first("homeDirectory"),
            mail=entry.first(self.mail_attribute),
        )

    def name_of(self, entry: Entry, typed: str) -> str:
        """Return the user name as the directory writes it.

        An entry with two names (an alias) is one person with one home: the name in the DN counts,
        else the first.
        """
        names = entry.attributes.get(self.name_attribute.lower(), ())
        with suppress(LDAPException):  # a DN that ldap3 cannot parse
            attribute, value, _ = parse_dn(entry.dn)[0]
            if attribute.lower() == self.name_attribute.lower() and value in names:
                return str(value)
        return names[0] if names else typed


def account_of(entry: Entry, name: str) -> str:
    """Return the name of a person's Unix account, which their sessions run as: in lower case, as
    Unix has names, unless the account itself is written with capital letters.

    LDAP does not distinguish them, Unix does. If accounts of both spellings exist, ``uidNumber``
    tells which one is the person's. Blocking: asks NSS.
    """
    lower = name.lower()
    if lower == name:
        return name
    plain, written = _uid(lower), _uid(name)
    if written is None or plain == written:  # the second: an NSS that ignores case, as for AD
        uid = _number(entry.first("uidNumber"))
        strange = plain is not None and written is None and uid is not None and plain != uid
        return name if strange else lower
    return name if plain is None or _number(entry.first("uidNumber")) != plain else lower


def _uid(name: str) -> int | None:
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None
