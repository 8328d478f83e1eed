"""Changes that the portal makes to JupyterHub's own objects, in the Hub's process.

Each file is one patch: what it changes, why, where it was discussed, and what would make it
unnecessary. Importing them changes nothing. Figures of a class are medians of three alternating
starts, measured with ``make bench ARGS="--only patches"``. ``portal/doctor/foreign_code.txt`` has
the patched source as of the patch's last review: with a new JupyterHub, ``portal doctor`` and
``tests/unit/spawners/hub_patches/`` name what has changed.

The portal's service and its sessions are other processes, with patches of their own:
``portal/web/tossed.py``; ``__main__.py``, ``spawners/api/guests.py`` and ``tossed.py`` of
``kernels/portal_session/``.
"""

from __future__ import annotations

from . import (
    body_limits,
    bounded_application,
    client_ids,
    course_hosts,
    database_check,
    database_ping,
    early_response,
    entry_confirm,
    launch_page,
    no_server,
    oauth_secret,
    progress_stream,
    service_restart,
    session_cookie,
    spawn_commits,
    spawn_queue,
    stock_port_route,
    stop_context,
    xsrf_cookie,
)
from .patch import Patch

# In the order in which they are applied.
PATCHES: tuple[Patch, ...] = (
    # security
    stock_port_route.PATCH,
    bounded_application.PATCH,
    body_limits.PATCH,
    xsrf_cookie.PATCH,
    session_cookie.PATCH,
    course_hosts.PATCH,
    client_ids.PATCH,
    progress_stream.PATCH,
    launch_page.PATCH,
    # what JupyterHub tells nobody
    database_check.PATCH,
    early_response.PATCH,
    stop_context.PATCH,  # its handler is one of early_response's
    # what it does not know
    entry_confirm.PATCH,
    no_server.PATCH,
    service_restart.PATCH,
    # the event loop
    spawn_commits.PATCH,
    spawn_queue.PATCH,  # around spawn_commits
    oauth_secret.PATCH,
    database_ping.PATCH,
)


def apply_patches() -> None:
    """Patch JupyterHub in this process, before a Hub is made; a second call does nothing."""
    for patch in PATCHES:
        patch.apply()
