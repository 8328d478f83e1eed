"""Setup of jupyterhub-idle-culler, which ends idle sessions, with GPUs or without.

Off unless a site sets a time. Activity is what the session itself reports
(portal_session.activity), every five minutes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from jupyterhub import orm
from jupyterhub.app import JupyterHub
from jupyterhub.utils import utcnow
from tornado.web import HTTPError
from traitlets import Integer, TraitError, validate
from traitlets.config import Configurable

from portal.setting import setting

SERVICE = "idle-culler"
# From its documentation (jupyterhub-idle-culler, README, "Permissions").
SCOPES = ["list:users", "read:users:activity", "read:servers", "delete:servers"]
LEAST = (
    1800  # seconds: a session reports every five minutes, and its network may be cut for a while
)
CHECK_EVERY = 600  # seconds, at most; a check is one list of the sessions
SILENT = 900  # seconds: three reports that did not come


class IdleSessions(Configurable):
    """Limits after which the Hub ends idle or old sessions."""

    timeout = setting(
        Integer(0, min=0),
        """Seconds without activity (a cell, a terminal, a computing program, a saved file) after
        which a session is stopped, with or without GPUs; 0: never. The minimum is half an hour. A
        session that has not reported to the Hub for 15 minutes is never stopped for inactivity: its
        network may be down.""",
        "c.IdleSessions.timeout = 8 * 3600",
    )

    max_age = setting(
        Integer(0, min=0),
        """Seconds after its start at which a session is stopped regardless of activity; 0: never.
        It requires a `timeout` too.""",
        "c.IdleSessions.max_age = 7 * 86400",
    )

    @validate("timeout")
    def _long_enough(self, proposal: Any) -> int:
        if 0 < proposal.value < LEAST:
            raise TraitError(
                f"c.IdleSessions.timeout must be 0 or at least {LEAST} s, not "
                f"{proposal.value}: sessions report their activity only every five minutes."
            )
        return int(proposal.value)


def offer(hub: JupyterHub) -> None:
    """Add the service, if the site wants it, once the Hub has read all of its configuration, the
    site's files too: when it opens its database, before it makes services and roles."""
    hub.observe(_configured, names="session_factory")


def _configured(change: Any) -> None:
    hub = change.owner
    settings = IdleSessions(config=hub.config)
    if settings.timeout:
        hub.services = [*hub.services, service(settings, hub)]
        hub.load_roles = [*hub.load_roles, role()]


def service(settings: IdleSessions, hub: JupyterHub) -> dict[str, Any]:
    """Return the culler as a service that the Hub manages."""
    command = [
        sys.executable,
        "-m",
        "jupyterhub_idle_culler",
        "--config=",  # none: by default it takes one from wherever the Hub was started
        f"--timeout={settings.timeout}",
        f"--cull-every={min(CHECK_EVERY, settings.timeout // 2)}",
    ]
    if settings.max_age:
        command.append(f"--max-age={settings.max_age}")
    if hub.internal_ssl:
        certificates = Path(hub.internal_certs_location).resolve()
        command += ["--ssl-enabled=True", f"--internal-certs-location={certificates}"]
    return {"name": SERVICE, "command": command}


def role() -> dict[str, Any]:
    """Return the role of the service."""
    return {
        "name": SERVICE,
        "description": "Stops idle sessions",
        "scopes": SCOPES,
        "services": [SERVICE],
    }


def refuse_for_silence(user: Any, server: str) -> None:
    """Raise a 409 for a session of which the Hub has heard nothing for ``SILENT`` seconds: its
    activity is unknown. Each of its reports comes with its own token, also one that says that
    nothing was done. Raise it for a kernel in a job of its own too: the session of its notebook
    reports its activity, and the kernel does not outlive that.
    """
    spawner = user.spawners.get(server) if user is not None else None
    if not getattr(spawner, "serves", True):
        raise HTTPError(409, "A kernel is not stopped as idle: it ends when its session ends.")
    number = getattr(spawner, "token_id", 0)
    if not number:
        return
    token = user.db.get(orm.APIToken, number)
    reported_at = (token.last_activity or token.created) if token is not None else None
    if reported_at is None or (utcnow(with_tz=False) - reported_at).total_seconds() > SILENT:
        raise HTTPError(
            409,
            "This session does not report to the Hub at present. Its activity is not known, "
            "so it is not stopped as idle.",
        )
