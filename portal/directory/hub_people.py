"""A directory of people: whom the Hub knows, in the groups that its authenticator gave them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from ..errors import NotFound
from ..models.course.course import group_of


class Hub(Protocol):
    """The part of the Hub's REST API that is needed (``portal.hubapi``)."""

    async def people(self, names: Collection[str]) -> Mapping[str, Mapping[str, Any]]: ...
    async def people_of(self, group: str) -> tuple[str, ...]: ...


class HubPeople:
    """Serves every authenticator that manages groups. Somebody's groups and mail address are those
    of their last visit; who never came is unknown."""

    on = True
    complete = False

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def known(self, names: Collection[str]) -> Mapping[str, str]:
        """Return those of ``names`` whom the Hub knows. Raises HubUnavailable."""
        return {name: name for name in await self._hub.people(names)}

    async def members_of(self, group: str) -> tuple[str, ...]:
        """Return everyone in a group. Raises NotFound, also for a course's: its people are those
        of its roster, which is its staff's to read. Raises HubUnavailable."""
        if group.casefold().startswith(group_of("")):
            raise NotFound(f"'{group}' is the group of a course, which is no roster.")
        try:
            return await self._hub.people_of(group)
        except NotFound:
            raise NotFound(f"Nobody who has logged in was in a group '{group}'.") from None

    async def may_teach(self, name: str) -> bool:
        """Return whether the Hub's roles let this person run courses. Raises HubUnavailable."""
        return bool((await self._hub.people([name])).get(name, {}).get("teaches"))

    async def mail_of(self, name: str) -> str | None:
        """Return the mail address that the login service told. Raises HubUnavailable."""
        mail = (await self._hub.people([name])).get(name, {}).get("mail")
        return mail if isinstance(mail, str) and mail else None
