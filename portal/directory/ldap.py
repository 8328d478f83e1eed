"""Directory of people: LDAP."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from traitlets.config import LoggingConfigurable

from ..errors import ConfigurationError
from .authenticator import LDAPAuthenticator


class LdapDirectory(LoggingConfigurable):
    """Directory on the LDAP servers of ``c.LDAPAuthenticator``, whichever authenticator is used."""

    complete = True

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._made: LDAPAuthenticator | None = None

    @property
    def on(self) -> bool:
        """True if the site has servers, and an account (or none needed) to search them with."""
        section = self.config.LDAPAuthenticator
        return bool(
            section.get("servers")
            and (section.get("search_bind_dn") or section.get("search_anonymously"))
        )

    async def known(self, names: Collection[str]) -> Mapping[str, str]:
        """Return the Hub's name of each of ``names`` that exists."""
        return {name: person.name for name, person in (await self._searched.known(names)).items()}

    async def members_of(self, group: str) -> tuple[str, ...]:
        """Return the Hub's names of all members of a group. Raises NotFound."""
        return await self._searched.members_of(group)

    async def may_teach(self, name: str) -> bool:
        """Return True if the person is in one of ``instructor_groups`` or ``admin_groups``."""
        return await self._searched.may_teach(name)

    async def mail_of(self, name: str) -> str | None:
        """Return the person's ``mail_attribute``. ConfigurationError names the missing settings."""
        return await self._ldap.mail_of(name)

    @property
    def _searched(self) -> LDAPAuthenticator:
        if not self.on:
            raise ConfigurationError("This site has no directory that can be searched for users.")
        return self._ldap

    @property
    def _ldap(self) -> LDAPAuthenticator:
        if self._made is None:
            self._made = LDAPAuthenticator(parent=self.parent)
        return self._made
