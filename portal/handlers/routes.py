"""Every address of the service, with its handler."""

from __future__ import annotations

from typing import Any

from .admin import announcements, audit, openapi
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
from .cluster import cluster, gpus, history, jobs, nodes, stream, usage
from .cluster.metrics import MetricsHandler
from .courses import (
    board,
    collects,
    courses,
    handouts,
    lifecycle,
    live,
    people,
    room,
    roster,
    starts,
)
from .courses import usage as course_usage
from .pages.catalog import CATALOG_PAGES
from .pages.courses import COURSE_PAGES
from .pages.curate import CURATE_PAGES
from .pages.pages import PAGES
from .pages.runs import RUN_PAGES
from .pages.sessions import SESSION_PAGES
from .runs import again as run_again
from .runs import ask as run_ask
from .runs import choices as run_choices
from .runs import comparison as run_comparison
from .runs import curves as run_curves
from .runs import folders as run_folders
from .runs import outputs as run_outputs
from .runs import record as run_record
from .runs import reports as run_reports
from .runs import runs
from .runs import schedules as run_schedules
from .runs import shares as run_shares
from .runs import start as run_start
from .runs import tensorboard as run_tensorboard
from .runs import values as run_values
from .sessions import (
    actions,
    estimates,
    extend,
    job_kernels,
    moves,
    notices,
    servers,
    session,
    sessions,
    snooze,
    starters,
    telemetry,
    tensorboard,
)

ENDPOINTS: tuple[type[Endpoint], ...] = (
    *actions.ENDPOINTS,
    *announcements.ENDPOINTS,
    *audit.ENDPOINTS,
    *builds.ENDPOINTS,
    *cluster.ENDPOINTS,
    *live.ENDPOINTS,
    *board.ENDPOINTS,
    *collects.ENDPOINTS,
    *handouts.ENDPOINTS,
    *people.ENDPOINTS,
    *room.ENDPOINTS,
    *roster.ENDPOINTS,
    *lifecycle.ENDPOINTS,
    *course_usage.ENDPOINTS,
    *courses.ENDPOINTS,
    *starts.ENDPOINTS,
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
    *job_kernels.ENDPOINTS,
    *jobs.ENDPOINTS,
    *measurements.ENDPOINTS,
    *moves.ENDPOINTS,
    *nodes.ENDPOINTS,
    *notices.ENDPOINTS,
    *openapi.ENDPOINTS,
    *user_environments.ENDPOINTS,
    *registries.ENDPOINTS,
    *run_comparison.ENDPOINTS,
    *run_curves.ENDPOINTS,
    *run_record.ENDPOINTS,
    *run_ask.ENDPOINTS,
    *run_outputs.ENDPOINTS,
    *run_again.ENDPOINTS,
    *run_choices.ENDPOINTS,
    *run_folders.ENDPOINTS,
    *run_reports.ENDPOINTS,
    *run_shares.ENDPOINTS,
    *run_start.ENDPOINTS,
    *run_tensorboard.ENDPOINTS,
    *run_values.ENDPOINTS,
    *run_schedules.ENDPOINTS,  # before {run}: 'schedules' is none
    *runs.ENDPOINTS,
    *servers.ENDPOINTS,
    *session.ENDPOINTS,
    *sessions.ENDPOINTS,
    *snooze.ENDPOINTS,
    *starters.ENDPOINTS,
    *stream.ENDPOINTS,
    *telemetry.ENDPOINTS,
    *tensorboard.ENDPOINTS,
    *upcoming.ENDPOINTS,
    *usage.ENDPOINTS,
)


_PAGES = (*CATALOG_PAGES, *COURSE_PAGES, *CURATE_PAGES, *RUN_PAGES, *SESSION_PAGES, *PAGES)


def routes(prefix: str) -> list[Any]:
    """Return tornado's routes; ``prefix`` is the service's path with both slashes."""
    return [
        (f"{prefix}oauth_callback", CallbackHandler),
        *(kind.route(prefix) for kind in ENDPOINTS),
        (f"{prefix}api(?:/.*)?", APINotFoundHandler),
        (f"{prefix}metrics/?", MetricsHandler),
        *((prefix + address, page) for address, page in _PAGES),
    ]
