"""Pages and actions of the site that have no object, each with the scope that it needs."""

from __future__ import annotations

from collections.abc import Iterator

from portal.models import scope
from portal.models.destination import Destination, Kind
from portal.models.person import Person

# Kind, title, detail, address below the Hub's ("hub/…") or the service's, and scope ("": none).
_ROWS: tuple[tuple[Kind, str, str, str, str], ...] = (
    ("page", "Sessions", "", "sessions", ""),
    ("page", "Launch", "", "hub/spawn", ""),
    ("page", "Catalog", "Environments", "catalog", ""),
    ("page", "Your environments", "Catalog", "catalog/own", ""),
    ("page", "Cluster", "Nodes, GPUs and jobs", "", ""),
    ("page", "Usage", "Your GPU-hours", "usage", ""),
    ("page", "Tokens", "Of the API", "hub/token", ""),
    ("page", "Curate", "Environments and builds", "curate", scope.ENVIRONMENTS_MANAGE),
    ("page", "Registries", "Curate", "curate/registries", scope.ENVIRONMENTS_MANAGE),
    ("page", "Users", "Admin", "users", scope.USERS_MANAGE),
    ("page", "Announcements", "Admin", "announcements", scope.ANNOUNCEMENTS_MANAGE),
    ("page", "Audit log", "Admin", "audit", scope.AUDIT_READ),
    ("page", "All usage", "Admin", "usage?by=user", scope.USAGE_READ),
    ("action", "Launch a session", "", "hub/spawn", ""),
    ("action", "Request an environment", "", "catalog/request", ""),
    ("action", "Add an environment", "", "curate/new", scope.ENVIRONMENTS_MANAGE),
    ("action", "Announce", "", "announcements", scope.ANNOUNCEMENTS_MANAGE),
    ("action", "Log out", "", "hub/logout", ""),
)


def site_destinations(person: Person, base: str, prefix: str) -> Iterator[Destination]:
    """Yield what this person may use. ``base`` and ``prefix``: paths of JupyterHub and of the
    service, with their slashes."""
    for kind, title, detail, path, needed in _ROWS:
        if not needed or person.may(needed):
            root = base if path.startswith("hub/") else prefix
            yield Destination(kind=kind, title=title, detail=detail, url=root + path)
