"""Every address of the service, with its handler."""

from __future__ import annotations

from typing import Any

import portal.work  # noqa: F401  adds the features
from portal.features import loaded

from .admin import announcements, audit, openapi, users
from .base.base import APINotFoundHandler, CallbackHandler
from .base.endpoint import Endpoint
from .catalog import (
    builds,
    comparison,
    editing,
    environments,
    favourites,
    measurements,
    registries,
    requests,
    tests,
    upcoming,
    user_environments,
    versions,
    work,
)
from .cluster import cluster, gpus, history, job_use, jobs, nodes, stream, usage
from .cluster.metrics import MetricsHandler
from .destinations import endpoint as destinations
from .pages.catalog import CATALOG_PAGES
from .pages.curate import CURATE_PAGES
from .pages.pages import PAGES
from .pages.sessions import SESSION_PAGES
from .sessions import (
    actions,
    estimates,
    extend,
    moves,
    notices,
    servers,
    session,
    sessions,
    snooze,
    starters,
    telemetry,
)

_OWN: tuple[type[Endpoint], ...] = (
    *actions.ENDPOINTS,
    *announcements.ENDPOINTS,
    *audit.ENDPOINTS,
    *builds.ENDPOINTS,
    *cluster.ENDPOINTS,
    *comparison.ENDPOINTS,
    *tests.ENDPOINTS,  # before {environment}: 'test-all' is none
    *editing.ENDPOINTS,  # before {environment}: 'validate' is none
    *requests.ENDPOINTS,
    *versions.ENDPOINTS,
    *work.ENDPOINTS,
    *environments.ENDPOINTS,
    *estimates.ENDPOINTS,
    *extend.ENDPOINTS,
    *favourites.ENDPOINTS,
    *gpus.ENDPOINTS,
    *history.ENDPOINTS,
    *job_use.ENDPOINTS,
    *jobs.ENDPOINTS,
    *destinations.ENDPOINTS,
    *measurements.ENDPOINTS,
    *moves.ENDPOINTS,
    *nodes.ENDPOINTS,
    *notices.ENDPOINTS,
    *openapi.ENDPOINTS,
    *user_environments.ENDPOINTS,
    *registries.ENDPOINTS,
    *servers.ENDPOINTS,
    *session.ENDPOINTS,
    *sessions.ENDPOINTS,
    *snooze.ENDPOINTS,
    *starters.ENDPOINTS,
    *stream.ENDPOINTS,
    *telemetry.ENDPOINTS,
    *upcoming.ENDPOINTS,
    *usage.ENDPOINTS,
    *users.ENDPOINTS,
)


_PAGES = (*CATALOG_PAGES, *CURATE_PAGES, *SESSION_PAGES, *PAGES)


def endpoints() -> tuple[type[Endpoint], ...]:
    """Return the API's endpoints, with those of the features."""
    return (*_OWN, *(kind for kinds in loaded("endpoints") for kind in kinds))


def routes(prefix: str) -> list[Any]:
    """Return tornado's routes; ``prefix`` is the service's path with both slashes."""
    return [
        (f"{prefix}oauth_callback", CallbackHandler),
        *(kind.route(prefix) for kind in endpoints()),
        (f"{prefix}api(?:/.*)?", APINotFoundHandler),
        (f"{prefix}metrics/?", MetricsHandler),
        *((prefix + address, page) for pages in loaded("pages") for address, page in pages),
        *((prefix + address, page) for address, page in _PAGES),
    ]
