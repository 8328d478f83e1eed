"""The directory that a site has. One more is one more file, and one more line here."""

from __future__ import annotations

from traitlets.config import Configurable

from .directory import Directory
from .hub_people import Hub, HubPeople
from .ldap import LdapDirectory


def directory_of(parent: Configurable, hub: Hub) -> Directory:
    """Return the one to ask: LDAP where the configuration names servers, also where people log in
    by something else; the Hub otherwise."""
    if parent.config.LDAPAuthenticator.get("servers"):
        return LdapDirectory(parent=parent)
    return HubPeople(hub)
