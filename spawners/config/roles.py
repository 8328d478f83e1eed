"""Holders of the roles ``portal-admin`` and ``portal-instructor``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from jupyterhub import orm
from jupyterhub.app import JupyterHub
from sqlalchemy import select
from traitlets import Bool, Set, Unicode
from traitlets.config import Configurable

from portal.directory.site_roles import groups_with_roles
from portal.setting import setting


class PortalAdmins(Configurable):
    """Admins of the portal: the Hub's own, and those named here."""

    hub_admins = setting(
        Bool(True),
        """Make the Hub's admins admins of the portal, too: members of the authenticator's
        `admin_groups`, and its `admin_users`. Admins made on the Hub's admin page are not included;
        add them to `users`.""",
        "c.PortalAdmins.hub_admins = False",
    )

    groups = setting(
        Set(Unicode()),
        "Groups whose members are admins of the portal, by the Hub's group names.",
        'c.PortalAdmins.groups = {"hpc-operators"}',
    )

    users = setting(
        Set(Unicode()),
        "Users who are admins of the portal, by name.",
        'c.PortalAdmins.users = {"grace"}',
    )


class Members:
    """Groups or users of the role, as the Hub iterates over them when it makes its roles.

    A list would be made while the configuration is read, before the site's own files have named
    the admins; this is evaluated when all of it is known.
    """

    def __init__(self, kind: Literal["groups", "users"]) -> None:
        self.kind = kind

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def _names(self) -> list[str]:
        hub = JupyterHub.instance()
        if hub.authenticator.manage_roles:
            return []  # only the authenticator may assign roles then (JupyterHub)
        admins = PortalAdmins(config=hub.config)
        names: set[str] = set(getattr(admins, self.kind))
        if admins.hub_admins:
            names |= set(getattr(hub.authenticator, f"admin_{self.kind}", ()))
        return sorted(names)


class Instructors(Members):
    """Groups whose members are instructors, as named by the authenticator."""

    def __init__(self) -> None:
        super().__init__("groups")

    def _names(self) -> list[str]:
        authenticator = JupyterHub.instance().authenticator
        if authenticator.manage_roles:
            return []
        return sorted(getattr(authenticator, "instructor_groups", ()))


def role_groups() -> set[str]:
    """Return the groups whose members hold a role, by the configuration or the Hub's database."""
    hub = JupyterHub.instance()
    named = {*groups_with_roles(hub.config), *Members("groups"), *Instructors()}
    return named | set(hub.db.scalars(select(orm.Group.name).where(orm.Group.roles.any())))
