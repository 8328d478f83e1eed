"""Check of the proxy in front of the Hub and the sessions."""

from __future__ import annotations

import os
import shutil
from urllib.parse import urlsplit

from jupyterhub.proxy import ConfigurableHTTPProxy
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest

from ..command import ask
from ..finding import Result, check, failure, ok, skipped, warning
from ..site import Site

_OLDEST = (4, 6)  # what JupyterHub 6 is tested with


@check("proxy", "The proxy runs independently of the Hub")
async def proxy(site: Site) -> Result:
    kind = site.of_hub("proxy_class")
    if not issubclass(kind, ConfigurableHTTPProxy):
        return skipped(f"the proxy is {kind.__name__}, which this command cannot check")
    if not site.setting(kind, "should_start"):
        return await _running(site)
    command = site.setting(kind, "command")
    args = [command] if isinstance(command, str) else list(command)
    program = shutil.which(args[0])
    if not program:
        return failure(
            f"{args[0]} is not installed",
            "Run `portal proxy` as a unit of its own "
            "(deploy/systemd/data-scientist-portal-proxy.service).",
        )
    answer = await ask([program, *args[1:], "--version"])
    version = answer.stdout.strip()
    if answer.status or not version:
        return failure(
            f"{program} does not run: {answer.words}", "Install Node.js 18 or newer (`node`)."
        )
    if _numbers(version) < _OLDEST:
        return failure(
            f"configurable-http-proxy {version} is too old",
            "npm install -g configurable-http-proxy@5",
        )
    return warning(
        f"configurable-http-proxy {version} is started by the Hub, so restarting the Hub "
        "disconnects all open sessions",
        "Run it as a separate unit (deploy/systemd/data-scientist-portal-proxy.service) and set "
        "c.ConfigurableHTTPProxy.should_start = False.",
    )


async def _running(site: Site) -> Result:
    kind = site.of_hub("proxy_class")
    url = site.setting(kind, "api_url") or "http://127.0.0.1:8001"
    token = site.setting(kind, "auth_token") or os.environ.get("CONFIGPROXY_AUTH_TOKEN", "")
    if not token:
        return skipped(
            "the proxy is a separate unit, and this command does not have its token",
            "Set CONFIGPROXY_AUTH_TOKEN for this command, as for the Hub.",
        )
    if urlsplit(url).scheme == "https":
        return skipped("the proxy's API uses internal_ssl, which this command does not support")
    request = HTTPRequest(
        f"{url.rstrip('/')}/api/routes",
        headers={"Authorization": f"token {token}"},
        request_timeout=5,
        connect_timeout=5,
    )
    try:
        await AsyncHTTPClient(force_instance=True).fetch(request)
    except HTTPClientError as error:
        if error.code == 403:
            return failure(
                f"the proxy at {url} rejects the Hub's token",
                "Give both units the same CONFIGPROXY_AUTH_TOKEN and restart them.",
            )
        return failure(f"the proxy at {url} answers {error.code}", "See the proxy's log.")
    except OSError as error:
        return failure(
            f"no proxy answers at {url}: {error.strerror or error}",
            "systemctl start data-scientist-portal-proxy",
        )
    return ok(f"it runs as a separate process and answers at {url}")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
