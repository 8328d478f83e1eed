"""Pages and actions of the site that have no object: the entries of the side bar, and what has none
there, with the scope that it needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from portal.models import scope
from portal.models.destination import Destination, Kind
from portal.models.person import Person
from portal.navigation import groups_for

# Kind, title, detail, address below the Hub's ("hub/…") or the service's, and scope ("": none).
_ROWS: tuple[tuple[Kind, str, str, str, str], ...] = (
    ("page", "Your environments", "Catalog", "catalog/own", ""),
    ("page", "Usage", "Your GPU-hours", "usage", ""),
    ("page", "Tokens", "Of the API", "hub/token", ""),
    ("page", "Registries", "Curate", "curate/registries", scope.ENVIRONMENTS_MANAGE),
    ("action", "Launch a session", "", "hub/spawn", ""),
    ("action", "Request an environment", "", "catalog/request", ""),
    ("action", "Add an environment", "", "curate/new", scope.ENVIRONMENTS_MANAGE),
    ("action", "Announce", "", "announcements", scope.ANNOUNCEMENTS_MANAGE),
    ("action", "Log out", "", "hub/logout", ""),
)


def site_destinations(
    person: Person, groups: Sequence[str], base: str, prefix: str
) -> Iterator[Destination]:
    """Yield what this person, in these groups of the Hub, may use. ``base`` and ``prefix``: paths
    of JupyterHub and of the service, with their slashes."""
    viewer = person.model_copy(update={"groups": tuple(groups)})
    for _, links in groups_for(viewer, person.scopes, hub=f"{base}hub/", service=prefix):
        for link in links:
            yield Destination(kind="page", title=link.label, detail=link.detail, url=link.href)
    for kind, title, detail, path, needed in _ROWS:
        if not needed or person.may(needed):
            root = base if path.startswith("hub/") else prefix
            yield Destination(kind=kind, title=title, detail=detail, url=root + path)
