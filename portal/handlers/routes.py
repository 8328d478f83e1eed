"""Every address of the service, and who answers there."""

from __future__ import annotations

from typing import Any

from . import (
    actions,
    announcements,
    audit,
    builds,
    cluster,
    course_board,
    course_collects,
    course_handouts,
    course_live,
    course_people,
    course_room,
    course_roster,
    course_starts,
    course_steps,
    course_usage,
    courses,
    environment_comparison,
    environment_editing,
    environment_requests,
    environment_tests,
    environment_versions,
    environment_work,
    environments,
    estimates,
    extend,
    favourites,
    gpus,
    history,
    jobs,
    measurements,
    moves,
    nodes,
    notices,
    openapi,
    own_environments,
    registries,
    session,
    sessions,
    snooze,
    starters,
    stream,
    telemetry,
    tensorboard,
    usage,
)
from .base import APINotFoundHandler, CallbackHandler
from .catalog_pages import catalog_page_routes
from .course_pages import course_page_routes
from .curate_pages import curate_page_routes
from .endpoint import Endpoint
from .metrics import MetricsHandler
from .pages import page_routes

ENDPOINTS: tuple[type[Endpoint], ...] = (
    *actions.ENDPOINTS,
    *announcements.ENDPOINTS,
    *audit.ENDPOINTS,
    *builds.ENDPOINTS,
    *cluster.ENDPOINTS,
    *course_live.ENDPOINTS,
    *course_board.ENDPOINTS,
    *course_collects.ENDPOINTS,
    *course_handouts.ENDPOINTS,
    *course_people.ENDPOINTS,
    *course_room.ENDPOINTS,
    *course_roster.ENDPOINTS,
    *course_steps.ENDPOINTS,
    *course_usage.ENDPOINTS,
    *courses.ENDPOINTS,
    *course_starts.ENDPOINTS,
    *environment_comparison.ENDPOINTS,
    *environment_tests.ENDPOINTS,  # before {environment}: 'test-all' is none
    *environment_editing.ENDPOINTS,  # before {environment}: 'validate' is none
    *environment_requests.ENDPOINTS,
    *environment_versions.ENDPOINTS,
    *environment_work.ENDPOINTS,
    *environments.ENDPOINTS,
    *estimates.ENDPOINTS,
    *extend.ENDPOINTS,
    *favourites.ENDPOINTS,
    *gpus.ENDPOINTS,
    *history.ENDPOINTS,
    *jobs.ENDPOINTS,
    *measurements.ENDPOINTS,
    *moves.ENDPOINTS,
    *nodes.ENDPOINTS,
    *notices.ENDPOINTS,
    *openapi.ENDPOINTS,
    *own_environments.ENDPOINTS,
    *registries.ENDPOINTS,
    *session.ENDPOINTS,
    *sessions.ENDPOINTS,
    *snooze.ENDPOINTS,
    *starters.ENDPOINTS,
    *stream.ENDPOINTS,
    *telemetry.ENDPOINTS,
    *tensorboard.ENDPOINTS,
    *usage.ENDPOINTS,
)


def routes(prefix: str) -> list[Any]:
    """The rows for tornado; ``prefix`` is the service's path with both slashes."""
    return [
        (f"{prefix}oauth_callback", CallbackHandler),
        *(kind.route(prefix) for kind in ENDPOINTS),
        (f"{prefix}api(?:/.*)?", APINotFoundHandler),
        (f"{prefix}metrics/?", MetricsHandler),
        *catalog_page_routes(prefix),
        *course_page_routes(prefix),
        *curate_page_routes(prefix),
        *page_routes(prefix),
    ]
