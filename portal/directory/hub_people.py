"""Directory of the people whom the Hub knows, in the groups that its authenticator gave them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from ..errors import NotFound
from ..spaces.registry import space_type_of_group


class PeopleApi(Protocol):
    """Required part of the Hub's REST API (``portal.hubapi``)."""

    async def people(self, names: Collection[str]) -> Mapping[str, Mapping[str, Any]]: ...
    async def people_of(self, group: str) -> tuple[str, ...]: ...


class HubPeople:
    """Directory for any authenticator that manages groups. Groups and mail address are those of a
    person's last visit; people who have never logged in are unknown."""

    on = True
    complete = False

    def __init__(self, hub: PeopleApi) -> None:
        self._hub = hub

    async def known(self, names: Collection[str]) -> Mapping[str, str]:
        """Return those of ``names`` whom the Hub knows. Raises HubUnavailable."""
        return {name: name for name in await self._hub.people(names)}

    async def members_of(self, group: str) -> tuple[str, ...]:
        """Return all members of a group. Raises NotFound, also for a space's group, whose members
        are on its roster, which only its staff may read. Raises HubUnavailable."""
        if of := space_type_of_group(group):
            raise NotFound(f"'{group}' is the group of a {of.noun} and cannot be used as a roster.")
        try:
            return await self._hub.people_of(group)
        except NotFound:
            raise NotFound(f"No user who has signed in is in a group '{group}'.") from None

    async def may_teach(self, name: str) -> bool:
        """Return True if the person is an instructor by the Hub's roles. Raises HubUnavailable."""
        return bool((await self._hub.people([name])).get(name, {}).get("teaches"))

    async def mail_of(self, name: str) -> str | None:
        """Return the mail address given by the login service, or None. Raises HubUnavailable."""
        mail = (await self._hub.people([name])).get(name, {}).get("mail")
        return mail if isinstance(mail, str) and mail else None
