"""Choice of a site's directory. A new kind takes a file of its own and a line here."""

from __future__ import annotations

from traitlets.config import Configurable

from .directory import Directory
from .hub_people import HubPeople, PeopleApi
from .ldap import LdapDirectory


def directory_of(parent: Configurable, hub: PeopleApi) -> Directory:
    """Return the directory to query: LDAP if the configuration names servers, even if people log in
    another way, else the Hub."""
    if parent.config.LDAPAuthenticator.get("servers"):
        return LdapDirectory(parent=parent)
    return HubPeople(hub)
