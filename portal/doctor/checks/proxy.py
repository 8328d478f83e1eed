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


@check("proxy", "The proxy is there and outlives the Hub")
async def proxy(site: Site) -> Result:
    kind = site.of_hub("proxy_class")
    if not issubclass(kind, ConfigurableHTTPProxy):
        return skipped(f"the proxy is {kind.__name__}, which this command does not know")
    if not site.setting(kind, "should_start"):
        return await _running(site)
    command = site.setting(kind, "command")
    args = [command] if isinstance(command, str) else list(command)
    program = shutil.which(args[0])
    if not program:
        return failure(
            f"{args[0]} is not installed",
            "npm install -g configurable-http-proxy, or name its path in "
            "c.ConfigurableHTTPProxy.command.",
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
        f"configurable-http-proxy {version} is started by the Hub, so a restart of the Hub cuts "
        "every open session's connection",
        "Run it as a unit of its own (deploy/systemd/data-scientist-portal-proxy.service) and set "
        "c.ConfigurableHTTPProxy.should_start = False.",
    )


async def _running(site: Site) -> Result:
    kind = site.of_hub("proxy_class")
    url = site.setting(kind, "api_url") or "http://127.0.0.1:8001"
    token = site.setting(kind, "auth_token") or os.environ.get("CONFIGPROXY_AUTH_TOKEN", "")
    if not token:
        return skipped(
            "the proxy is a unit of its own; its token is not known to this command",
            "Give this command CONFIGPROXY_AUTH_TOKEN, as the Hub has it.",
        )
    if urlsplit(url).scheme == "https":
        return skipped("the proxy's API is behind internal_ssl, which this command does not open")
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
                f"the proxy at {url} refuses the Hub's token",
                "Give both units the same CONFIGPROXY_AUTH_TOKEN and restart them.",
            )
        return failure(f"the proxy at {url} answers {error.code}", "Look at the proxy's log.")
    except OSError as error:
        return failure(
            f"no proxy answers at {url}: {error.strerror or error}",
            "systemctl start data-scientist-portal-proxy",
        )
    return ok(f"it runs on its own and answers at {url}")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
