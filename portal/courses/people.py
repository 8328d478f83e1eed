"""Who of a course's people there is, asked of the site's directory where the service can."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from traitlets.config import LoggingConfigurable

from portal.directory import LDAPAuthenticator
from portal.errors import ConfigurationError


class Directory(Protocol):
    """What a course asks of the directory. ``on``: whether it can be asked; else nothing is.

    Every method raises DirectoryUnavailable and ConfigurationError.
    """

    @property
    def on(self) -> bool: ...
    async def known(self, names: Collection[str]) -> Mapping[str, str]: ...
    async def members_of(self, group: str) -> tuple[str, ...]: ...
    async def may_teach(self, name: str) -> bool: ...


class CourseDirectory(LoggingConfigurable):
    """The directory that the Hub's people log in with, by the same settings."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._ldap: LDAPAuthenticator | None = None

    @property
    def on(self) -> bool:
        """Whether the site has one, and an account to search it with."""
        section = self.config.LDAPAuthenticator
        return bool(
            section.get("servers")
            and (section.get("search_bind_dn") or section.get("search_anonymously"))
        )

    async def known(self, names: Collection[str]) -> Mapping[str, str]:
        """The Hub's name of each of ``names`` that is there."""
        return {name: one.name for name, one in (await self._asked.known(names)).items()}

    async def members_of(self, group: str) -> tuple[str, ...]:
        """The Hub's names of everyone in a group. Raises NotFound."""
        return await self._asked.members_of(group)

    async def may_teach(self, name: str) -> bool:
        """Whether a person may run courses."""
        return await self._asked.may_teach(name)

    @property
    def _asked(self) -> LDAPAuthenticator:
        if not self.on:
            raise ConfigurationError("This site has no directory that can be asked for people.")
        if self._ldap is None:
            self._ldap = LDAPAuthenticator(parent=self.parent)
        return self._ldap
