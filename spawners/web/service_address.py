"""Address of the portal's service, as the nodes reach it."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from jupyterhub.app import JupyterHub
from jupyterhub.utils import url_path_join

from .domains import SERVICE

_NOWHERE = "http://127.0.0.1:9"  # the port of "discard", where nothing listens
_ANY = ("", "*", "0.0.0.0", "::")  # noqa: S104  how a bind_url says "all addresses"


def service_address(hub: JupyterHub) -> str:
    """Return the service's URL as nodes reach it, if the Hub's configuration tells it; else "".

    It is made from ``public_url``, or the proxy's ``bind_url`` if that names an address of the
    network. A proxy that listens on all addresses is assumed to be where the Hub is; not with
    https, whose certificate names a host that is unknown here.
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


def no_page() -> str:
    """Return the address, without a path, to which the proxy leads a session that has no page:
    the service, which answers 404 to all paths but its own."""
    services = JupyterHub.instance()._service_map if JupyterHub.initialized() else {}
    server = services[SERVICE].server if SERVICE in services else None
    return server.host if server is not None else _NOWHERE


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
