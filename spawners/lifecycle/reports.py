"""Variables and scopes with which a session reports to the service."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from jupyterhub import orm
from jupyterhub.scopes import scope_definitions
from sqlalchemy.orm import Session

from portal.models.scope import OF_SESSIONS

from ..settings import SessionSettings


def report_environment(spawner: SessionSettings) -> dict[str, str]:
    """Return the variables that make a session report; {} if it is not to report."""
    if not (spawner.service_url and spawner.telemetry_interval):
        return {}
    return {
        "PORTAL_SERVICE_URL": spawner.service_url,
        "PORTAL_TELEMETRY_INTERVAL": f"{spawner.telemetry_interval:g}",
    }


def token_scopes(spawner: SessionSettings) -> list[str]:
    """Return the scopes of a session's token: JupyterHub's for servers, and for reports."""
    scopes = list(_server_role(spawner.user.db).scopes)
    if report_environment(spawner):
        # A site defines these (20-service.py); a token with an unknown one would be an error.
        scopes += sorted(f"{scope}!server" for scope in OF_SESSIONS & scope_definitions.keys())
    return scopes


_server_roles: WeakKeyDictionary[Session, orm.Role] = WeakKeyDictionary()


def _server_role(db: Session) -> orm.Role:
    """Return the role of servers, queried once: a change of it in the Hub changes this object."""
    role = _server_roles.get(db)
    if role is None or role not in db:
        role = _server_roles[db] = orm.Role.find(db, "server")
    return role
