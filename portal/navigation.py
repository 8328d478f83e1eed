"""Navigation: the entries of the side bar, which the Hub's pages and the service's have alike.

The core's stand here, those of a feature with it (`portal.features.Feature`);
``templates/nav.html`` names none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum
from types import SimpleNamespace
from typing import Any, NamedTuple

from .models import scope

_ADMIN_UI = "admin-ui"  # JupyterHub's own scope


class Group(StrEnum):
    """Groups of entries, in their order."""

    WORK = "work"
    SPACES = "spaces"
    SITE = "site"
    ADMIN = "admin"


class Entry(NamedTuple):
    """Entry of the side bar, and of "Go to…". Without ``scopes`` and ``space`` everyone sees it. Of
    entries with one label, a user sees the first."""

    label: str
    path: str  # below the service's address
    icon: str  # of Font Awesome, which JupyterHub brings, without "fa-"
    group: Group = Group.WORK
    scopes: frozenset[str] = frozenset()  # any of them shows it
    space: str = ""  # a type of spaces, such as "course", whose members see it too
    on_hub: bool = False  # the path is below the Hub's address instead
    detail: str = ""  # words by which "Go to…" finds it too

    def shown_to(self, scopes: Collection[str], groups: Iterable[str]) -> bool:
        """Return True if a user with these scopes, in these groups of the Hub, sees it."""
        if not self.scopes and not self.space:
            return True
        member = self.space and any(group.startswith(f"{self.space}-") for group in groups)
        return bool(member) or not self.scopes.isdisjoint(scopes)


class Link(NamedTuple):
    """Entry with its address."""

    label: str
    href: str
    icon: str
    detail: str


def _admin(
    label: str, path: str, icon: str, needed: str, *, on_hub: bool = False, detail: str = "Admin"
) -> Entry:
    scopes = frozenset({needed})
    return Entry(label, path, icon, Group.ADMIN, scopes, on_hub=on_hub, detail=detail)


ENTRIES = [
    Entry("Home", "home", "house", on_hub=True),
    Entry("Launch", "spawn", "rocket", on_hub=True),
    Entry("Sessions", "sessions", "layer-group"),
    Entry("Catalog", "catalog", "cubes", Group.SITE, detail="Environments"),
    Entry("Cluster", "", "server", Group.SITE, detail="Nodes, GPUs and jobs"),
    _admin(
        "Curate",
        "curate",
        "screwdriver-wrench",
        scope.ENVIRONMENTS_MANAGE,
        detail="Environments and builds",
    ),
    _admin("Users", "users", "users", scope.USERS_MANAGE),
    # Without the service, and for admins made by hand, who may lack the portal's scope.
    _admin("Users", "admin", "users", _ADMIN_UI, on_hub=True),
    _admin("Announcements", "announcements", "bullhorn", scope.ANNOUNCEMENTS_MANAGE),
    _admin("Audit log", "audit", "clipboard-list", scope.AUDIT_READ),
    _admin("All usage", "usage?by=user", "chart-column", scope.USAGE_READ),
]


def add_entries(*entries: Entry) -> None:
    """Add entries, each below those that its group has."""
    ENTRIES.extend(entries)


def groups_for(
    user: Any, scopes: Collection[str], *, hub: str, service: str
) -> list[tuple[Group, list[Link]]]:
    """Return the groups with the entries that ``user`` sees, without empty ones.

    ``hub`` and ``service`` are addresses that end with a slash; ``service`` is "" at a Hub without
    one. The groups of ``user`` are objects on the Hub's pages, and names on the service's.
    """
    names = [getattr(group, "name", group) for group in getattr(user, "groups", ())]
    # The service's tokens do not have this scope.
    held = {*scopes, _ADMIN_UI} if getattr(user, "admin", False) else scopes
    shown: dict[Group, dict[str, Link]] = {group: {} for group in Group}
    for entry in ENTRIES:
        base = hub if entry.on_hub else service
        if base and entry.shown_to(held, names):
            link = Link(entry.label, base + entry.path, entry.icon, entry.detail)
            shown[entry.group].setdefault(entry.label, link)
    return [(group, list(links.values())) for group, links in shown.items() if links]


FOR_PAGES = SimpleNamespace(groups_for=groups_for)  # the templates' portal_navigation
