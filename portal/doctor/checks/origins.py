"""Check that sessions and the Hub's pages have different origins."""

from __future__ import annotations

import asyncio
import socket
from urllib.parse import SplitResult, urlsplit

from jupyterhub.proxy import ConfigurableHTTPProxy
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest

from ..finding import Result, check, failure, ok, warning, worst
from ..site import Site
from .access import is_loopback

_GUIDE = "docs/how-to/https.md"
_SOMEBODY = "portal-doctor"  # a name that only a wildcard resolves


@check("origins", "A page of one user's session cannot act as another user on the Hub")
async def origins(site: Site) -> Result:
    address = site.of_hub("subdomain_host")
    if not address:
        return warning(
            "sessions share the Hub's origin: a page of another user's session can act on the Hub "
            "as the user who opens it, so Help in courses is off",
            'Set c.JupyterHub.subdomain_host = "https://portal.example.org", with a wildcard DNS '
            f"record and certificate: {_GUIDE}. Until then, admins should not follow links to "
            "other users' sessions.",
        )
    url = urlsplit(address)
    if not url.hostname or url.path or url.query:
        return failure(
            f"c.JupyterHub.subdomain_host is {address}",
            'Set it to an address without a path, e.g. "https://portal.example.org".',
        )
    return worst(
        [
            _encrypted(url),
            _service(site, url.hostname),
            _cookies(site, url),
            await _wildcard(site, url.hostname),
            await _routing(site, url.hostname),
        ]
    )


def _encrypted(url: SplitResult) -> Result:
    host = url.hostname or ""
    if url.scheme == "https" or is_loopback(host):
        return ok(f"sessions have subdomains of {host}")
    return failure(
        f"c.JupyterHub.subdomain_host is plain HTTP at {host}",
        f"Use https:// and give the reverse proxy a wildcard certificate: {_GUIDE}.",
    )


def _service(site: Site, host: str) -> Result:
    """Check that the portal's service is at the Hub's host: their pages send requests to each
    other."""
    at = site.of_hub("subdomain_hook")("portal", host, "service")
    if at == host:
        return ok("the portal's pages share the Hub's host")
    return failure(
        f"the portal's service would be at {at}, where its pages cannot send requests to the Hub",
        "Remove c.JupyterHub.subdomain_hook from the configuration, or let it return the domain "
        'itself for the service "portal", as spawners/web/domains.py does.',
    )


async def _routing(site: Site, host: str) -> Result:
    """Check that the proxy routes by host: the Hub starts it so, but a proxy that is a unit of its
    own has a command line of its own."""
    kind = site.of_hub("proxy_class")
    if not issubclass(kind, ConfigurableHTTPProxy) or site.setting(kind, "should_start"):
        return ok("the Hub starts the proxy")
    bind = urlsplit(site.of_hub("bind_url"))
    port = f":{bind.port}" if bind.port else ""
    at = f"{bind.scheme}://{bind.hostname or '127.0.0.1'}{port}"
    request = HTTPRequest(
        f"{at}/services/portal/api/v1/cluster",
        headers={"Host": host},
        follow_redirects=False,
        validate_cert=False,  # requested by its address, not its name
        request_timeout=5,
        connect_timeout=5,
    )
    try:
        response = await AsyncHTTPClient(force_instance=True).fetch(request, raise_error=False)
    except (OSError, HTTPClientError):
        return ok("the proxy does not answer")  # reported by another check
    if "/hub/services/portal/" not in response.headers.get("Location", ""):
        return ok("the proxy routes by host")
    return failure(
        f"the proxy at {at} does not route by host: it sends all requests to the Hub",
        "Add --host-routing (PROXY_OPTIONS in secrets.env) and restart it, then the Hub.",
    )


def _cookies(site: Site, url: SplitResult) -> Result:
    """Check that pages below the Hub's host cannot set its login cookies, as they can without a
    prefix."""
    host = url.hostname or ""
    if not host_of_somebody(site, host).endswith(f".{host}"):
        return ok("sessions cannot set cookies for the Hub")
    if url.scheme != "https" or site.of_hub("cookie_host_prefix_enabled"):
        return ok("sessions cannot set login cookies")  # plain HTTP is reported above
    return warning(
        "pages in sessions can set the Hub's login cookies, and so replace a visitor's login",
        "Set c.JupyterHub.cookie_host_prefix_enabled and c.HubOAuth.cookie_host_prefix_enabled to "
        "True. deploy/jupyterhub_config.py does this automatically if c.JupyterHub.subdomain_host "
        "is set in a file of jupyterhub_config.d. All users must log in again.",
    )


def host_of_somebody(site: Site, host: str) -> str:
    """Return the host of a person's sessions."""
    return str(site.of_hub("subdomain_hook")(_SOMEBODY, host, "user"))


async def _wildcard(site: Site, host: str) -> Result:
    if is_loopback(host):  # browsers resolve such names to this machine themselves
        return ok(f"*.{host} resolves to this machine")
    below = host_of_somebody(site, host)
    hub, somebody = await asyncio.gather(_addresses(host), _addresses(below))
    if not somebody:
        return failure(
            f"{below} does not resolve, so no session can be opened",
            f"Add a wildcard DNS record for *.{below.partition('.')[2]}.",
        )
    if hub and not hub & somebody:
        return warning(
            f"{below} resolves to {', '.join(sorted(somebody))}, but {host} to "
            f"{', '.join(sorted(hub))}",
            f"Point *.{host} to the same reverse proxy, unless this is intended.",
        )
    return ok(f"*.{host} resolves")


async def _addresses(host: str) -> set[str]:
    """Return the addresses of a name; an empty set if it does not resolve."""
    try:
        infos = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return set()
    return {str(address[0]) for *_, address in infos}
