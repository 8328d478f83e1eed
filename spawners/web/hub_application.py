"""The Hub's tornado application: it answers only at its own addresses, and limits body sizes.

JupyterHub answers at every host that leads to it, and reads bodies of 100 MB into memory before it
checks who sends them.
"""

from __future__ import annotations

import contextlib
from typing import Any
from urllib.parse import urlsplit

from jupyterhub.app import JupyterHub
from tornado.httputil import HTTPServerRequest
from tornado.web import HTTPError
from traitlets import List, Unicode
from traitlets.config import Configurable

from portal.logs.request import note_fields
from portal.setting import setting
from portal.web.application import BoundedApplication
from portal.web.hosts import HubHosts, host_in

_ELSEWHERE = "The portal is only available at {home}. The request was not processed."


class HubRequests(Configurable):
    """Limits on the requests that the Hub answers."""

    # Bytes of a request's body that the Hub reads. Sessions and the portal's service have their own
    # limits.
    max_body = 1024 * 1024

    hosts = setting(
        List(Unicode()),
        """Additional host names, without a port, at which programs reach the Hub's API if sessions
        have their own hosts (c.JupyterHub.subdomain_host). The Hub's public address, its
        hub_connect_url and loopback are always accepted. Users cannot log in at these hosts.""",
        'c.HubRequests.hosts = ["hub.internal.example.org"]',
    )


class HubApplication(BoundedApplication):
    """Application of the Hub; ``hub_hosts`` in its settings are the Hub's addresses."""

    def log_request(self, handler: Any) -> None:
        """Log a request, with its user."""
        with contextlib.suppress(HTTPError, RuntimeError):  # no login was read
            note_fields(user=getattr(handler.current_user, "name", ""))
        super().log_request(handler)

    def find_handler(self, request: HTTPServerRequest, **kwargs: Any) -> Any:
        """Return the handler of ``request``; at other hosts than the Hub's a redirect or a 403."""
        hosts: HubHosts = self.settings["hub_hosts"]
        if hosts.answers(request.host_name, request.path):
            return super().find_handler(request, **kwargs)
        message = _ELSEWHERE.format(home=hosts.home)
        if request.method in ("GET", "HEAD"):
            headers = {"Location": hosts.at_home(str(request.uri))}
            return self.refusal(request, 302, message, headers)
        return self.refusal(request, 403, message)


def hosts_of(hub: JupyterHub, more: list[str]) -> HubHosts:
    """Return the addresses of ``hub``; ``more`` are further hosts for programs."""
    if not hub.subdomain_host:
        return HubHosts("", prefix=hub.hub.base_url)
    public = urlsplit(hub.public_url or hub.subdomain_host)
    urls = [hub.hub.url, hub.hub.bind_url, hub.bind_url]
    for kind in hub.spawner_class.mro():
        urls.append(str(hub.config.get(kind.__name__, {}).get("hub_connect_url", "")))
    connect = {host_in(url) for url in urls} | {host.lower() for host in more}
    home = f"{public.scheme}://{public.netloc}"
    return HubHosts(home, frozenset(connect - {""}), hub.hub.base_url)
