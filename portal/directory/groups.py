"""Groups of a person, and the groups that contain those."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ldap3.utils.conv import escape_filter_chars

from . import filters
from .servers import Entry, Session

Nesting = Literal["search", "ad", "off"]

# Active Directory's LDAP_MATCHING_RULE_IN_CHAIN: the server itself follows nested groups.
# https://learn.microsoft.com/en-us/windows/win32/adsi/search-filter-syntax
IN_CHAIN = "1.2.840.113556.1.4.1941"

# Active Directory: no member attribute lists the primary group, usually "Domain Users".
PRIMARY_GROUP = ("primaryGroupID", "objectSid")

# DNs in a filter: servers limit a request's size (AD: 10 MiB; OpenLDAP before bind: 256 KiB), so a
# level with more groups is queried in parts.
_PER_SEARCH = 100

_SID = re.compile(r"S-1(-[0-9]+)+")


@dataclass(frozen=True)
class Groups:
    """Search for groups."""

    base: str  # groups below this DN are searched; "": no groups
    filter: str = filters.GROUPS
    name_attribute: str = "cn"
    member_attributes: Sequence[str] = ("member", "uniqueMember")  # hold DNs
    name_member_attributes: Sequence[str] = ("memberUid",)  # hold plain user names (posixGroup)
    # "search" asks for the groups of the groups, level by level; "ad" lets Active Directory do it
    # in a single search; "off" takes the person's own groups only.
    nesting: Nesting = "search"
    depth: int = 10  # levels, at most, of "search"
    log: logging.Logger | logging.LoggerAdapter[Any] = field(
        default_factory=lambda: logging.getLogger(__name__)
    )

    def groups_of(
        self, session: Session, dn: str, name: str, primary: str = "", gid: int | None = None
    ) -> tuple[str, ...]:
        """Return the names of all groups of the person ``dn``, user name ``name``, sorted.

        ``primary``: SID of their primary group, "" if there is none; ``gid``: its number in Unix
        (RFC 2307: no attribute of the group lists those whose ``gidNumber`` it is). Groups that
        contain each other do not hang the search. Raises ServerTrouble.
        """
        if not self.base:
            return ()
        names: dict[str, str] = {}  # by DN, so that a group is queried once
        level = self._find(session, self.first_filter(dn, name, gid), names)
        tests = f"(objectSid={primary})" if primary else ""
        if self.nesting == "ad" and gid is not None:
            tests += f"(gidNumber={gid})"
        if tests:
            primaries = self._find(session, f"(&{self.filter}(|{tests}))", names)
            level += primaries
            if self.nesting == "ad":
                for group in primaries:
                    self._find(session, self.first_filter(group, ""), names)
        if self.nesting == "search":
            for _ in range(self.depth):
                if not level:
                    break
                parents: list[str] = []
                for start in range(0, len(level), _PER_SEARCH):
                    part = level[start : start + _PER_SEARCH]
                    parents += self._find(session, self._containing(part), names)
                level = parents
            if level:
                self.log.warning(
                    "LDAP: groups of %s are nested deeper than %d levels; the rest is left out",
                    *(name, self.depth),
                )
        return tuple(sorted(set(names.values())))

    def first_filter(self, dn: str, name: str, gid: int | None = None) -> str:
        """Return the filter for the groups that contain the person (with "ad": nested ones too, and
        not the primary one)."""
        if self.nesting == "ad":
            value = escape_filter_chars(dn)
            tests = "".join(f"({a}:{IN_CHAIN}:={value})" for a in self.member_attributes[:1])
            return f"(&{self.filter}{tests})"
        by_name = escape_filter_chars(name)
        tests = "".join(f"({a}={by_name})" for a in self.name_member_attributes)
        tests += "" if gid is None else f"(gidNumber={gid})"
        return self._containing([dn], tests)

    def _containing(self, dns: Sequence[str], more: str = "") -> str:
        values = [escape_filter_chars(dn) for dn in dns]
        tests = "".join(f"({a}={value})" for a in self.member_attributes for value in values)
        return f"(&{self.filter}(|{tests}{more}))"

    def _find(self, session: Session, filter: str, names: dict[str, str]) -> list[str]:
        """Return the DNs of groups that are not in ``names`` yet, and add their names to it."""
        new: list[str] = []
        for entry in session.search(self.base, filter, [self.name_attribute]):
            name = entry.first(self.name_attribute)
            if name and entry.dn.casefold() not in names:
                names[entry.dn.casefold()] = name
                new.append(entry.dn)
        return new


def primary_group(entry: Entry) -> str:
    """Return the SID of a person's primary group in Active Directory, which is their own SID with
    another last number; "" in other directories."""
    number, sid = (entry.first(attribute) for attribute in PRIMARY_GROUP)
    if not number or not number.isdigit() or not sid or not _SID.fullmatch(sid):
        return ""
    return f"{sid.rpartition('-')[0]}-{number}"
