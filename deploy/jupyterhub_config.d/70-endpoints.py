"""Endpoints, where a gateway runs (deploy/systemd/data-scientist-portal-gateway.service).

PORTAL_GATEWAY_STATE is its state directory, /var/lib/data-scientist-portal/gateway; the web service
reads it too. Without the variable, endpoints are not offered.
"""

import os

c = get_config()  # noqa: F821

if os.environ.get("PORTAL_GATEWAY_STATE"):
    gateway = os.environ.get("PORTAL_GATEWAY_URL", "http://127.0.0.1:8003")
    # With c.JupyterHub.subdomain_host, SessionProxy puts that host before the route.
    c.Proxy.extra_routes = {"/services/portal/models/": gateway}
