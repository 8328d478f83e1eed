"""Cache of spaces and their members, for seconds: asked for every decision, in the Hub and in the
service."""

from __future__ import annotations

import copy
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ..cache import SharedAnswers
from ..errors import NotAllowed, NotFound
from ..models.space import Member, Role, StoredSpace
from .registry import space_nouns

_AGE = 3.0  # seconds for which an answer is fresh
_MOST = 20_000  # people, and spaces
_Stored = TypeVar("_Stored", bound=StoredSpace)


@dataclass(frozen=True)
class Membership(Generic[_Stored]):
    """Role of a person in a space."""

    stored: _Stored
    role: Role
    member: Member | None = None


@dataclass
class MembershipCache(Generic[_Stored]):
    """Cache of what two queries answer, each for ``age`` seconds: of a space by its name, and of a
    person's memberships.

    Every method raises StoreUnavailable, except those that return what is known.
    """

    space_named: Callable[[str], Awaitable[_Stored]]
    members_of: Callable[[str], Awaitable[Sequence[Member]]]
    age: float = _AGE
    noun: str = ""  # the only type of spaces that it knows; "": all
    _spaces: SharedAnswers[str, _Stored] = field(init=False)
    _people: SharedAnswers[str, Sequence[Member]] = field(init=False)
    _mine: SharedAnswers[str, Mapping[str, Membership[_Stored]]] = field(init=False)

    def __post_init__(self) -> None:
        how: Any = {"most": _MOST, "keep": False, "ttl": lambda _: self.age}
        self._spaces = SharedAnswers(self.space_named, **how)
        self._people = SharedAnswers(self.members_of, **how)
        self._mine = SharedAnswers(self._memberships, **{**how, "ttl": 0.0})  # its parts are kept

    async def space(self, name: str, *, fresh: bool = False) -> _Stored:
        """Return a space. Raises NotFound."""
        moment = time.monotonic() if fresh else None
        stored = await self._spaces.for_key(name).get(newer_than=moment)
        if not self._knows(stored.space.noun):
            raise NotFound(f"There is no {self.noun} '{name}'.")
        return stored

    def known_space(self, name: str) -> _Stored | None:
        """Return the last answer of ``space``, however old; None if nobody has asked."""
        stored = self._spaces.last(name)
        return stored if stored is not None and self._knows(stored.space.noun) else None

    async def of_user(self, person: str, *, fresh: bool = False) -> tuple[Member, ...]:
        """Return a person's memberships of all spaces, whatever their state."""
        moment = time.monotonic() if fresh else None
        members = await self._people.for_key(person).get(newer_than=moment)
        return tuple(member for member in members if self._knows(member.noun))

    def known(self, person: str) -> tuple[Member, ...]:
        """Return the last answer of ``of_user``, however old; () if nobody has asked."""
        members = self._people.last(person) or ()
        return tuple(member for member in members if self._knows(member.noun))

    async def membership(self, person: str, name: str) -> Membership[_Stored]:
        """Return the membership of ``person`` in the space ``name``, whatever its state. Raises
        NotAllowed, in the same words whether it does not exist or is others'."""
        for member in await self.of_user(person):
            if member.space == name:
                return Membership(await self.space(name), member.role, member)
        raise NotAllowed(f"There is no {self.noun or space_nouns()} '{name}' that you can access.")

    async def mine(
        self, person: str, *, patience: float | None = None
    ) -> Mapping[str, Membership[_Stored]]:
        """Return every space that a person is in, by name, whatever its state. Raises
        TimeoutError after ``patience`` seconds; the answer is still kept when it comes."""
        mine = await self._mine.for_key(person).get(patience=patience)
        return {
            name: membership
            for name, membership in mine.items()
            if self._knows(membership.stored.space.noun)
        }

    def known_to(self, person: str) -> list[Membership[_Stored]]:
        """Return the last answer of ``mine``, however old; [] if nobody has asked."""
        pairs = [(self.known_space(member.space), member.role) for member in self.known(person)]
        return [Membership(stored, role) for stored, role in pairs if stored is not None]

    def of_type(self, noun: str) -> MembershipCache[Any]:
        """Return this cache for one type of spaces: others do not exist there."""
        cache = copy.copy(self)
        cache.noun = noun
        return cache

    def _knows(self, noun: str) -> bool:
        return self.noun in ("", noun)

    def forget(self) -> None:
        """Drop all answers, since something was changed here."""
        for answers in (self._spaces, self._people, self._mine):
            answers.clear()

    async def _memberships(self, person: str) -> Mapping[str, Membership[_Stored]]:
        roles = {member.space: member.role for member in await self.of_user(person)}
        return {name: Membership(await self.space(name), role) for name, role in roles.items()}
