"""What a session needs to speak with the service of itself: an address, a pace and scopes."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from jupyterhub import orm
from jupyterhub.app import JupyterHub
from jupyterhub.scopes import scope_definitions
from jupyterhub.utils import url_path_join
from sqlalchemy.orm import Session

from portal.models.scope import OF_SESSIONS

if TYPE_CHECKING:
    from ..spawner import PortalSpawner

_ANY = ("", "*", "0.0.0.0", "::")  # noqa: S104  how a bind_url says "all addresses"


def service_address(hub: JupyterHub) -> str:
    """The service's address as nodes reach it, as far as the Hub's configuration tells; else "".

    ``public_url``, or the proxy's ``bind_url`` where that names an address of the network. A proxy
    that listens on all addresses is taken to be where the Hub is; not with https, whose
    certificate names a host that stands nowhere here.
    """
    base = hub.public_url
    if not base:
        bind = urlsplit(hub.bind_url)
        host = bind.hostname or ""
        if host in _ANY:
            host = "" if bind.scheme == "https" else urlsplit(hub.hub.url).hostname or ""
        if not host or _loopback(host):
            return ""
        port = f":{bind.port}" if bind.port else ""
        base = f"{bind.scheme}://{f'[{host}]' if ':' in host else host}{port}{hub.base_url}"
    return url_path_join(base, "services/portal/")


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def report_environment(spawner: PortalSpawner) -> dict[str, str]:
    """The variables that make a session report; {} where it has nobody to report to."""
    if not (spawner.service_url and spawner.telemetry_interval):
        return {}
    return {
        "PORTAL_SERVICE_URL": spawner.service_url,
        "PORTAL_TELEMETRY_INTERVAL": f"{spawner.telemetry_interval:g}",
    }


def token_scopes(spawner: PortalSpawner) -> list[str]:
    """The scopes of a session's token: JupyterHub's own for servers, and what concerns itself."""
    scopes = list(_server_role(spawner.user.db).scopes)
    if report_environment(spawner):
        # A site defines these (20-service.py); a token with an unknown one would be an error.
        scopes += sorted(f"{scope}!server" for scope in OF_SESSIONS & scope_definitions.keys())
    return scopes


_server_roles: WeakKeyDictionary[Session, orm.Role] = WeakKeyDictionary()


def _server_role(db: Session) -> orm.Role:
    """Asked for once: whoever changes it in the Hub changes this object."""
    role = _server_roles.get(db)
    if role is None or role not in db:
        role = _server_roles[db] = orm.Role.find(db, "server")
    return role
