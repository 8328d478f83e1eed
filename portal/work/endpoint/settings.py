"""Settings of endpoints."""

from __future__ import annotations

from traitlets import Unicode
from traitlets.config import Configurable

from portal.setting import setting


class Endpoints(Configurable):
    """Settings of a site for models that answer at an address of the portal."""

    gateway = setting(
        Unicode(""),
        """State directory of the gateway (`portal gateway`), which the account of the Hub owns. The
        service writes there which models are served, and reads how many requests they get; "":
        endpoints are not offered. The proxy must route to the gateway, too:
        c.Proxy.extra_routes = {"/services/portal/models/": "http://127.0.0.1:8003"}; with
        c.JupyterHub.subdomain_host, the route begins with its host.""",
        'c.Endpoints.gateway = "/var/lib/data-scientist-portal/gateway"',
    )
