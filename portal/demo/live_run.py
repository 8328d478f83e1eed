"""The demo's run that goes on at a first visit: started as a user starts it, by a session."""

from __future__ import annotations

import contextlib
import threading
import time
import urllib.request
from collections.abc import Callable
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from ..errors import PortalError, Unavailable
from .people import People
from .service_api import ServiceApi

# Not ada's: her first session opens on the README, and this one would be the first.
USER, NAME = "grace", "two-moons"
_SERVER, _FOLDER, _SCRIPT = "examples", "examples", "two_moons.py"
_TIMEOUT = 30.0  # seconds for an answer
_PATIENCE = 300.0  # seconds for the session, on a machine that is making environments
_EXPIRES = 900  # seconds
_PAUSE = 1.0
_SMALL = {"partition": "cpu", "gpus": 0, "cpus": 1, "time": "0:20:00"}
_SESSION = {"environment": "jupyterlab", "memory": "1G", **_SMALL}
# Eight points of ten minutes, two at once: the run ends by itself after forty.
_VALUES = {"rate": "0.3, 0.1, 0.03, 0.003", "hidden": "2, 8"}
_AT_ONCE = 2


def start_run(url: str, deploy: Path, people: People, over: threading.Event) -> None:
    """Log in as USER at the Hub's address ``url``, start a session, and let it start a run; then
    stop it: the run goes on. Gives up when the demo is ``over``. Raises PortalError."""
    token = token_of(USER, url, people.password, "The demo's example of a run")
    hub = ServiceApi(url, token["token"], "hub/api")
    try:
        _start(hub, url, token["token"], (deploy / "demo/showcase" / _SCRIPT).read_text(), over)
    finally:
        with contextlib.suppress(PortalError):  # it expires
            hub.delete(f"users/{USER}/tokens/{token['id']}")


def token_of(user: str, url: str, password: str, note: str) -> dict[str, Any]:
    """Return the Hub's model of a new token of a user. Raises PortalError."""
    jar = CookieJar()
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    login = {"username": user, "password": password}
    try:
        # The login page makes the user known to the Hub.
        browser.open(f"{url}/hub/login", timeout=_TIMEOUT).close()
        xsrf = next((cookie.value or "" for cookie in jar if cookie.name == "_xsrf"), "")
        form = urlencode({**login, "_xsrf": xsrf}).encode()
        browser.open(f"{url}/hub/login?next=/hub/api/", form, timeout=_TIMEOUT).close()
    except OSError as error:
        raise Unavailable(f"The login of {user} failed: {error}") from None
    asked = {"auth": login, "note": note, "expires_in": _EXPIRES}
    token: dict[str, Any] = ServiceApi(url, "", "hub/api").post(f"users/{user}/tokens", asked)
    return token


def _start(hub: ServiceApi, url: str, token: str, script: str, over: threading.Event) -> None:
    server = f"users/{USER}/servers/{_SERVER}"
    hub.post(server, _SESSION)
    try:
        _await(lambda: _ready(hub), over)
        host = f"{USER}.{urlsplit(url).netloc}"
        files = ServiceApi(url, token, f"user/{USER}/{_SERVER}/api/contents", host)
        files.put(_FOLDER, {"type": "directory"})
        content = {"type": "file", "format": "text", "content": script}
        files.put(f"{_FOLDER}/{_SCRIPT}", content)
        service = ServiceApi(url, token)
        sessions = service.get("run-form")["sessions"]
        session = next(item["id"] for item in sessions if item["server"] == _SERVER)
        request = {
            "source": f"{_FOLDER}/{_SCRIPT}",
            "name": NAME,
            "values": _VALUES,
            "at_once": _AT_ONCE,
            "resources": {"memory": "300M", **_SMALL},
        }
        service.post(f"run-form/{session}/ask/start", {"asked": request})
    finally:
        hub.delete(server, {"remove": True})


def _ready(hub: ServiceApi) -> bool:
    """Return True once the session is ready. Raises PortalError if it is gone."""
    try:
        servers: dict[str, Any] = hub.get(f"users/{USER}")["servers"]
    except Unavailable:
        return False  # the Hub may be restarting
    if _SERVER not in servers:
        raise PortalError(f"The session of {USER} that starts the run '{NAME}' did not start.")
    return bool(servers[_SERVER]["ready"])


def _await(check: Callable[[], bool], over: threading.Event) -> None:
    end = time.monotonic() + _PATIENCE
    while not check():
        if over.wait(_PAUSE) or time.monotonic() > end:
            raise PortalError(f"The session that starts the run '{NAME}' was not ready in time.")
