"""Hosts of sessions, as a browser takes them: NAME.localhost is this machine (RFC 6761, 6.3).

The system's resolver need not know that, and Python asks nothing else.
"""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx

from portal.launch.course import server_of
from spawners.web.domains import host_of_server

HERE = "127.0.0.1"


def host_of(url: str, person: str, server: str = "") -> str:
    """The address, without a path, of this person's sessions at a portal's ``url``: a host of
    their own below "localhost", as in the demo, and one for each session of a course; the portal's
    own for a Hub without subdomains."""
    parts = urlsplit(url)
    host, domain = parts.netloc, parts.hostname
    if domain == "localhost":
        own = host_of_server(person, server, domain) if server_of(server) else f"{person}.{domain}"
        host = f"{own}:{parts.port}"
    return f"{parts.scheme}://{host}"


def reached(url: str) -> tuple[str, dict[str, str]]:
    """Where to connect for ``url``, and the header with which its host is asked for."""
    parts = urlsplit(url)
    if not (parts.hostname or "").endswith(".localhost"):
        return url, {}
    port = f":{parts.port}" if parts.port else ""
    return parts._replace(netloc=HERE + port).geturl(), {"Host": parts.netloc}


class LocalHosts(httpx.HTTPTransport):
    """Connects to 127.0.0.1 for every name below "localhost"."""

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
        # A browser takes the domain of one label for the host itself; Python's cookies refuse it.
        kept = [
            (name, value.replace(b"; Domain=localhost", b""))
            if name.lower() == b"set-cookie"
            else (name, value)
            for name, value in response.headers.raw
        ]
        response.headers = httpx.Headers(kept)
        return response


def client(url: str) -> httpx.Client:
    """A browser's manners at a portal's ``url``: cookies, redirects and these hosts."""
    return httpx.Client(
        base_url=url, timeout=60, follow_redirects=True, transport=LocalHosts(), trust_env=False
    )


def request(method: str, url: str, **kwargs: object) -> httpx.Response:
    """``httpx.request`` that finds these hosts."""
    with httpx.Client(transport=LocalHosts(), timeout=60) as asking:
        return asking.request(method, url, **kwargs)  # type: ignore[arg-type]
