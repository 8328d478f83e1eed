"""Features: what one kind of work, or another part that stands for itself, adds to the portal.

Everything else goes through ``FEATURES``, and knows none by name. A part is named here, as
``package.module:name``, and loaded by the process that needs it: the Hub never loads endpoints.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from traitlets import List, Unicode
from traitlets.config import Config, Configurable

from .launch.kinds import Kind, add_kinds
from .launch.programs import Programs
from .models.audit import AuditedAction, add_actions
from .navigation import Entry, add_entries
from .plugins import load
from .setting import setting
from .spaces.job_space import JobSpace
from .spaces.registry import add_spaces
from .store.engine.rows import TABLES, StoreTable

GROUP = "works"


class Feature(NamedTuple):
    """Parts of a feature, each optional."""

    name: str
    settings: tuple[type[Configurable], ...] = ()  # of a site
    kinds: tuple[type[Kind], ...] = ()  # of its sessions, in the order of the launch page
    spaces: tuple[type[JobSpace], ...] = ()  # types of spaces
    actions: tuple[type[AuditedAction], ...] = ()  # in the audit log
    # Its tables in the portal's database, which migrations make (`Store.table`).
    tables: tuple[type[StoreTable], ...] = ()
    # Class of its objects in the web service, made with `portal.assembly.Services`, which keeps it
    # (`Services.parts_for`). Its ``tasks`` are loops that the service keeps running, by name;
    # ``home_parts(person, since)`` yields its parts of Home (portal/models/home.py), ``metrics()``
    # its metrics for Prometheus.
    parts: str = ""
    endpoints: str = ""  # tuple of classes of endpoints; an address before a more general one
    pages: str = (
        ""  # tuple of pairs: the address below the service's, a regular expression; its page
    )
    navigation: tuple[Entry, ...] = ()  # entries of the side bar, which Ctrl-K finds too
    demo: str = ""  # its part of `portal demo`, a ``DemoPart`` (portal/demo/part.py)
    checks: str = ""  # tuple of checks of `portal doctor`


FEATURES: list[Feature] = []


def add_features(*features: Feature) -> None:
    """Add features, each once. Raises ConfigurationError for a kind whose name is another's."""
    for feature in features:
        if feature not in FEATURES:
            add_kinds(*feature.kinds)
            add_spaces(*feature.spaces)
            add_actions(*feature.actions)
            add_entries(*feature.navigation)
            TABLES.extend(feature.tables)
            FEATURES.append(feature)


def loaded(part: str) -> Iterator[Any]:
    """Load this part of each feature that has it, such as "endpoints"."""
    for feature in FEATURES:
        if name := getattr(feature, part):
            yield pkgutil.resolve_name(name)


class Works(Configurable):
    """Features from other packages."""

    names = setting(
        List(Unicode()),
        """Names of entry points of the group ``data_scientist_portal.works``, each a
        ``portal.features.Feature``: further kinds of work, with their endpoints and pages. They run
        with the rights of the Hub.""",
        'c.Works.names = ["dask"]',
    )

    def add_named(self) -> None:
        """Add the features that the site names. Raises ConfigurationError for one that is not
        installed, cannot be loaded, or has the kind of another."""
        add_features(*(load(GROUP, name) for name in self.names))


def add_works(config: Config | Mapping[str, Any]) -> None:
    """Add the features that a site's configuration names and the programs that it defines; see
    `Works.add_named`. Raises ConfigurationError."""
    Works(config=Config(config)).add_named()
    Programs(config=Config(config)).register()
