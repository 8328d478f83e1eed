"""Hosts of sessions, resolved as by a browser: NAME.localhost is this machine (RFC 6761, 6.3).

Python asks only the system's resolver, which need not know that.
"""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx

from portal.launch.course import parsed_server
from spawners.web.domains import host_of_server

HERE = "127.0.0.1"


def host_of(url: str, person: str, server: str = "") -> str:
    """Return the URL, without a path, of this person's sessions at the portal ``url``.

    The host is the person's subdomain of "localhost", as in the demo, with a separate one for each
    session of a course; for a Hub without subdomains, it is the portal's own.
    """
    parts = urlsplit(url)
    host, domain = parts.netloc, parts.hostname
    if domain == "localhost":
        own = (
            host_of_server(person, server, domain)
            if parsed_server(server)
            else f"{person}.{domain}"
        )
        host = f"{own}:{parts.port}"
    return f"{parts.scheme}://{host}"


def reached(url: str) -> tuple[str, dict[str, str]]:
    """Return the URL to connect to for ``url``, and the header that names its host."""
    parts = urlsplit(url)
    if not (parts.hostname or "").endswith(".localhost"):
        return url, {}
    port = f":{parts.port}" if parts.port else ""
    return parts._replace(netloc=HERE + port).geturl(), {"Host": parts.netloc}


class LocalHosts(httpx.HTTPTransport):
    """Transport that connects to 127.0.0.1 for every name below "localhost"."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        host = request.url.host
        if host == "localhost" or host.endswith(".localhost"):
            request = httpx.Request(
                request.method,
                request.url.copy_with(host=HERE),
                headers=request.headers,  # with the Host that was asked for
                stream=request.stream,
                extensions=request.extensions,
            )
        response = super().handle_request(request)
        # A browser treats a domain of one label as the host itself; Python's cookies refuse it.
        headers = [
            (name, value.replace(b"; Domain=localhost", b""))
            if name.lower() == b"set-cookie"
            else (name, value)
            for name, value in response.headers.raw
        ]
        response.headers = httpx.Headers(headers)
        return response


def client(url: str) -> httpx.Client:
    """Return a client for the portal ``url`` with a browser's cookies, redirects and hosts."""
    return httpx.Client(
        base_url=url, timeout=60, follow_redirects=True, transport=LocalHosts(), trust_env=False
    )


def request(method: str, url: str, **kwargs: object) -> httpx.Response:
    """Send a request as ``httpx.request`` does, with these hosts."""
    with httpx.Client(transport=LocalHosts(), timeout=60) as http_client:
        return http_client.request(method, url, **kwargs)  # type: ignore[arg-type]
