"""Look-ups of many people in the directory, and of the members of its groups. All calls block."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ldap3.core.exceptions import LDAPException
from ldap3.utils.conv import escape_filter_chars
from ldap3.utils.dn import parse_dn

from ..errors import NotFound
from .groups import IN_CHAIN, PRIMARY_GROUP
from .people import DirectoryPerson, People, account_of
from .servers import Entry, Session

_PER_SEARCH = 100  # names in a filter: servers return at most 500 entries (OpenLDAP's sizelimit)
_MOST = 20_000  # people of one group


@dataclass(frozen=True)
class Rosters:
    """Queries as ``people``'s search account; each method raises as ``People.look_up`` does."""

    people: People

    def known(self, names: Iterable[str], deadline: float) -> dict[str, DirectoryPerson]:
        """Return the people of ``names`` (lower case) in the directory, by name, without groups."""
        wanted = sorted(set(names))

        def work(session: Session) -> dict[str, DirectoryPerson]:
            people: dict[str, DirectoryPerson] = {}
            for start in range(0, len(wanted), _PER_SEARCH):
                people |= self._some(session, wanted[start : start + _PER_SEARCH])
            return people

        return self.people.ask(work, deadline)

    def members(self, group: str, deadline: float) -> tuple[str, ...]:
        """Return the user names of all members of a group and its nested groups, sorted, without
        those who do not match people_filter. Raises NotFound if there is no such group."""
        return self.people.ask(lambda session: self._members(session, group), deadline)

    def _some(self, session: Session, names: Sequence[str]) -> dict[str, DirectoryPerson]:
        people = self.people
        tests = "".join(map(people.person, names))
        attributes = [people.name_attribute, people.mail_attribute, "uidNumber"]
        entries = session.search(people.base, f"(|{tests})", attributes)
        persons: dict[str, DirectoryPerson] = {}
        for entry in entries:
            written = entry.attributes.get(people.name_attribute.lower(), ())
            for name in {value.lower() for value in written}.intersection(names):
                mail = entry.first(people.mail_attribute)
                account = account_of(entry, people.name_of(entry, name))
                persons[name] = DirectoryPerson(account, entry.dn, mail=mail)
        return persons

    def _members(self, session: Session, group: str) -> tuple[str, ...]:
        groups = self.people.groups
        named = f"(&{groups.filter}({groups.name_attribute}={escape_filter_chars(group)}))"
        attributes = [*groups.member_attributes, *groups.name_member_attributes]
        attributes += ["objectSid", "gidNumber"]
        level = session.search(groups.base, named, attributes) if groups.base else []
        if not level:
            raise NotFound(f"The directory has no group '{group}'.")
        if groups.nesting == "ad":
            return self._in_chain(session, level)
        names: set[str] = set()
        seen = {entry.dn.casefold() for entry in level}
        for _ in range(1 + (groups.depth if groups.nesting == "search" else 0)):
            inner: list[str] = []
            for entry in level:
                names |= {n.lower() for n in _values(entry, groups.name_member_attributes)}
                names |= self._with_primary(session, entry)
                for dn in _values(entry, groups.member_attributes):
                    if dn.casefold() not in seen and len(seen) < _MOST:
                        seen.add(dn.casefold())
                        inner.append(dn)
            level = []
            for dn in inner:
                name = self._named(dn)
                if name:
                    names.add(name)
                else:
                    level += self._read(session, dn, names)
            if not level:
                break
        known: set[str] = set()
        wanted = sorted(names)
        for start in range(0, len(wanted), _PER_SEARCH):
            persons = self._some(session, wanted[start : start + _PER_SEARCH])
            known |= {person.name for person in persons.values()}
        return tuple(sorted(known))

    def _with_primary(self, session: Session, group: Entry) -> set[str]:
        """Return the names, in lower case, of those whose primary group this is: no attribute of
        the group lists them."""
        gid, people = group.first("gidNumber"), self.people
        if not gid or not gid.isdigit():
            return set()
        entries = session.search(
            people.base,
            f"(&{people.anyone()}(gidNumber={gid}))",
            [people.name_attribute],
            page=_PER_SEARCH,
        )
        return {people.name_of(entry, "").lower() for entry in entries[:_MOST]} - {""}

    def _named(self, dn: str) -> str:
        """Return the user name in the DN itself, as in uid=ada,ou=people,…; "" if it has none."""
        people = self.people
        if not dn.casefold().replace(", ", ",").endswith(people.base.casefold().replace(", ", ",")):
            return ""
        with suppress(LDAPException, IndexError):
            attribute, value, _ = parse_dn(dn)[0]
            if attribute.lower() == people.name_attribute.lower():
                return str(value).lower()
        return ""

    def _read(self, session: Session, dn: str, names: set[str]) -> list[Entry]:
        """Read ``dn``: add a person's name to ``names``, or return a nested group's entry."""
        people, groups = self.people, self.people.groups
        attributes = [*groups.member_attributes, *groups.name_member_attributes, "gidNumber"]
        inner = session.search(dn, groups.filter, attributes, only_base=True)
        if inner:
            return inner if groups.nesting == "search" else []
        entries = session.search(dn, "(objectClass=*)", [people.name_attribute], only_base=True)
        names |= {
            name.lower() for entry in entries for name in _values(entry, [people.name_attribute])
        }
        return []

    def _in_chain(self, session: Session, level: Sequence[Entry]) -> tuple[str, ...]:
        """Return the members; Active Directory follows nested groups itself and pages its results.

        People whose primary group is one of these are not listed as its members, so they are
        searched for by the group's number.
        """
        people, groups = self.people, self.people.groups
        within = "".join(
            f"(memberOf:{IN_CHAIN}:={escape_filter_chars(group.dn)})" for group in level
        )
        inner = session.search(
            groups.base,
            f"(&{groups.filter}(|{within}))",
            [*PRIMARY_GROUP, "gidNumber"],
            page=_PER_SEARCH,
        )
        sids = {sid for group in (*level, *inner) if (sid := group.first("objectSid"))}
        gids = {group.first("gidNumber") or "" for group in (*level, *inner)}
        tests = within + "".join(f"(primaryGroupID={sid.rpartition('-')[2]})" for sid in sids)
        tests += "".join(f"(gidNumber={gid})" for gid in gids if gid.isdigit())
        entries = session.search(
            people.base,
            f"(&{people.anyone()}(|{tests}))",
            [people.name_attribute, "uidNumber"],
            page=_PER_SEARCH,
        )
        names = {account_of(person, people.name_of(person, "")) for person in entries}
        return tuple(sorted(names - {""}))


def _values(entry: Entry, attributes: Iterable[str]) -> list[str]:
    return [value for name in attributes for value in entry.attributes.get(name.lower(), ())]
