"""Who of many names is in the directory, and who is in one of its groups. All of it blocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ldap3.core.exceptions import LDAPException
from ldap3.utils.conv import escape_filter_chars
from ldap3.utils.dn import parse_dn

from ..errors import NotFound
from .groups import IN_CHAIN, PRIMARY_GROUP
from .people import DirectoryPerson, People
from .servers import Entry, Session

_PER_SEARCH = 100  # names in one filter: servers answer 500 entries at most (OpenLDAP's sizelimit)
_MOST = 20_000  # people of one group


@dataclass(frozen=True)
class Rosters:
    """Asks with ``people``'s search account; each method raises as ``People.look_up`` does."""

    people: People

    def known(self, names: Iterable[str], deadline: float) -> dict[str, DirectoryPerson]:
        """Those of ``names`` (in small letters) that the directory has, without their groups."""
        wanted = sorted(set(names))

        def work(session: Session) -> dict[str, DirectoryPerson]:
            found: dict[str, DirectoryPerson] = {}
            for start in range(0, len(wanted), _PER_SEARCH):
                found |= self._some(session, wanted[start : start + _PER_SEARCH])
            return found

        return self.people.ask(work, deadline)

    def members(self, group: str, deadline: float) -> tuple[str, ...]:
        """The user names of everyone in a group and in the groups in it, sorted; whoever does not
        match people_filter is left out. Raises NotFound where there is no such group."""
        return self.people.ask(lambda session: self._members(session, group), deadline)

    def _some(self, session: Session, names: Sequence[str]) -> dict[str, DirectoryPerson]:
        people = self.people
        tests = "".join(map(people.person, names))
        attributes = [people.name_attribute, people.mail_attribute]
        entries = session.search(people.base, f"(|{tests})", attributes)
        found: dict[str, DirectoryPerson] = {}
        for entry in entries:
            written = entry.attributes.get(people.name_attribute.lower(), ())
            for name in {one.lower() for one in written}.intersection(names):
                mail = entry.first(people.mail_attribute)
                found[name] = DirectoryPerson(people.name_of(entry, name), entry.dn, mail=mail)
        return found

    def _members(self, session: Session, group: str) -> tuple[str, ...]:
        groups = self.people.groups
        named = f"(&{groups.filter}({groups.name_attribute}={escape_filter_chars(group)}))"
        attributes = [*groups.member_attributes, *groups.name_member_attributes, "objectSid"]
        level = session.search(groups.base, named, attributes) if groups.base else []
        if not level:
            raise NotFound(f"The directory has no group '{group}'.")
        if groups.nesting == "ad":
            return self._in_chain(session, level)
        names: set[str] = set()
        seen = {entry.dn.casefold() for entry in level}
        for _ in range(1 + (groups.depth if groups.nesting == "search" else 0)):
            above: list[str] = []
            for entry in level:
                names |= {n.lower() for n in _values(entry, groups.name_member_attributes)}
                for dn in _values(entry, groups.member_attributes):
                    if dn.casefold() not in seen and len(seen) < _MOST:
                        seen.add(dn.casefold())
                        above.append(dn)
            level = []
            for dn in above:
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
            some = self._some(session, wanted[start : start + _PER_SEARCH])
            known |= {person.name for person in some.values()}
        return tuple(sorted(known))

    def _named(self, dn: str) -> str:
        """The user name that stands in the DN itself, as in uid=ada,ou=people,…; "" in others."""
        people = self.people
        if not dn.casefold().replace(", ", ",").endswith(people.base.casefold().replace(", ", ",")):
            return ""
        with suppress(LDAPException, IndexError):
            attribute, value, _ = parse_dn(dn)[0]
            if attribute.lower() == people.name_attribute.lower():
                return str(value).lower()
        return ""

    def _read(self, session: Session, dn: str, names: set[str]) -> list[Entry]:
        """What stands at ``dn``: a person, whose name is added to ``names``, or a group."""
        people, groups = self.people, self.people.groups
        attributes = [*groups.member_attributes, *groups.name_member_attributes]
        inner = session.search(dn, groups.filter, attributes, only_base=True)
        if inner:
            return inner if groups.nesting == "search" else []
        found = session.search(dn, "(objectClass=*)", [people.name_attribute], only_base=True)
        names |= {name.lower() for one in found for name in _values(one, [people.name_attribute])}
        return []

    def _in_chain(self, session: Session, level: Sequence[Entry]) -> tuple[str, ...]:
        """Active Directory follows nested groups itself, and gives large answers page by page.

        Whose primary group one of them is, is no member there: they are asked for by its number.
        """
        people, groups = self.people, self.people.groups
        within = "".join(f"(memberOf:{IN_CHAIN}:={escape_filter_chars(one.dn)})" for one in level)
        inner = session.search(
            groups.base, f"(&{groups.filter}(|{within}))", PRIMARY_GROUP, page=_PER_SEARCH
        )
        sids = {sid for one in (*level, *inner) if (sid := one.first("objectSid"))}
        tests = within + "".join(f"(primaryGroupID={sid.rpartition('-')[2]})" for sid in sids)
        found = session.search(
            people.base,
            f"(&{people.anyone()}(|{tests}))",
            [people.name_attribute],
            page=_PER_SEARCH,
        )
        return tuple(sorted({people.name_of(entry, "") for entry in found} - {""}))


def _values(entry: Entry, attributes: Iterable[str]) -> list[str]:
    return [value for name in attributes for value in entry.attributes.get(name.lower(), ())]
