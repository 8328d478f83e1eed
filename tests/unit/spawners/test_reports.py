"""The service's address as nodes reach it, from what a site's configuration says."""

from __future__ import annotations

import pytest
from jupyterhub.app import JupyterHub

from spawners.reports import service_address


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        ({}, ""),  # all addresses, and the Hub itself on loopback
        ({"bind_url": "http://127.0.0.1:8000"}, ""),
        ({"bind_url": "http://localhost:8000"}, ""),
        ({"bind_url": "http://[::1]:8000"}, ""),
        ({"hub_connect_ip": "10.0.0.5"}, "http://10.0.0.5:8000/services/portal/"),
        (
            {"bind_url": "http://:8000/jupyter/", "hub_connect_url": "http://head:8081"},
            "http://head:8000/jupyter/services/portal/",
        ),
        ({"bind_url": "https://:443", "hub_connect_ip": "10.0.0.5", "ssl_cert": "cert.pem"}, ""),
        (
            {"bind_url": "https://portal.example.org", "ssl_cert": "cert.pem"},
            "https://portal.example.org/services/portal/",
        ),
        ({"bind_url": "http://[fd00::1]:8000"}, "http://[fd00::1]:8000/services/portal/"),
        (
            {"public_url": "https://portal.example.org/", "bind_url": "http://127.0.0.1:8000"},
            "https://portal.example.org/services/portal/",
        ),
        (
            {"subdomain_host": "https://portal.example.org", "bind_url": "http://127.0.0.1:8000"},
            "https://portal.example.org/services/portal/",
        ),
    ],
)
def test_service_address(settings: dict[str, str], address: str) -> None:
    hub = JupyterHub(**settings)
    hub.init_hub()
    assert service_address(hub) == address
