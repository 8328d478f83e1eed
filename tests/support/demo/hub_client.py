"""A person for tests, who uses the login form as a browser does, then the Hub's REST API."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import local_hosts
import machine
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

PASSWORD = "portal-demo"


def wait_until(
    what: str, check: Callable[[], Any], timeout: float = 120, every: float = 0.25
) -> Any:
    """Call ``check`` until its result is true and return that; fail after ``timeout`` seconds."""
    deadline = time.monotonic() + machine.patience(timeout)
    while True:
        result = check()
        if result:
            return result
        assert time.monotonic() < deadline, f"{what}: not within {timeout} s"
        time.sleep(every)


class Person:
    """Person logged in at ``url``. ``api`` calls use a token of their own."""

    def __init__(self, url: str, name: str, password: str = PASSWORD) -> None:
        self.url, self.name = url.rstrip("/"), name
        self.http = local_hosts.client(self.url)
        self.login_answer = self.login(password)
        self.token = ""

    def login(self, password: str) -> httpx.Response:
        """Fill in the login form; return the response after all redirects. Retry if the directory
        did not answer in time."""
        for _ in range(3):
            self.http.get("/hub/login")
            form = {"username": self.name, "password": password, "_xsrf": self.xsrf}
            response = self.http.post("/hub/login", data=form)
            if response.status_code != 503:
                break
        return response

    @property
    def xsrf(self) -> str:
        """XSRF token of the Hub; the service and each session have their own."""
        cookies = (c for c in self.http.cookies.jar if (c.name, c.path) == ("_xsrf", "/hub/"))
        return next((cookie.value or "" for cookie in cookies), "")

    @property
    def logged_in(self) -> bool:
        return "/hub/login" not in str(self.login_answer.url)

    def api(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """Call the Hub's REST API as this person."""
        if not self.token:
            response = self.http.post(
                f"/hub/api/users/{self.name}/tokens",
                params={"_xsrf": self.xsrf},
                json={"note": "test"},
            )
            assert response.status_code == 201, response.text
            self.token = response.json()["token"]
        return httpx.request(
            method,
            f"{self.url}/hub/api{path}",
            headers={"Authorization": f"token {self.token}"},
            content=None if body is None else json.dumps(body),
            timeout=60,
        )

    def server_path(self, server: str = "") -> str:
        return f"/users/{self.name}/servers/{server}" if server else f"/users/{self.name}/server"

    def launch(
        self, options: dict[str, Any], server: str = "", patience: float = 120
    ) -> httpx.Response:
        """Request a session; return the response (201 ready, 202 starting, 4xx refused).

        Retries for ``patience`` seconds if Slurm's command failed, as on a machine that stood still
        for its MessageTimeout; waiting for a late answer is the portal's task."""
        give_up = time.monotonic() + machine.patience(patience)
        while True:
            response = self.api("POST", self.server_path(server), options)
            silent = response.status_code == 503 and "Slurm does not answer now" in response.text
            silent = silent and "has not answered for" not in response.text
            if not silent or time.monotonic() > give_up:
                return response
            time.sleep(1)

    def server(self, name: str = "") -> dict[str, Any]:
        """Return the Hub's model of a server; {} if there is none."""
        servers = self.api("GET", f"/users/{self.name}").json()["servers"]
        return servers.get(name, {})

    def wait_ready(self, server: str = "", timeout: float = 120) -> dict[str, Any]:
        return wait_until(
            f"{self.name}'s session ready",
            lambda: (model := self.server(server)).get("ready") and model,
            timeout,
        )

    def stop(self, server: str = "", timeout: float = 240) -> None:
        """Stop a session, if there is one, and wait until it is gone."""
        self.api("DELETE", self.server_path(server))
        wait_until(
            f"{self.name}'s session stopped",
            lambda: (
                self.server(server).get("ready") is not True
                and not self.server(server).get("pending")
            ),
            timeout,
        )

    def host(self, server: str = "") -> str:
        """Return the URL, without a path, of this person's session."""
        return local_hosts.host_of(self.url, self.name, server)

    def session_url(self, server: str = "") -> str:
        """Return the URL of a session's server, with the final slash."""
        return f"{self.host(server)}/user/{self.name}/{server + '/' if server else ''}"

    def session(self, method: str, path: str, server: str = "", **kwargs: Any) -> httpx.Response:
        """Send a request to the running session, through the proxy, with this person's token."""
        headers = {"Authorization": f"token {self.token}", **kwargs.pop("headers", {})}
        url = self.session_url(server) + path
        return local_hosts.request(method, url, headers=headers, **kwargs)

    async def socket(self, path: str, server: str = "") -> WebSocketClientConnection:
        """Open a websocket of the running session, with this person's token."""
        url, headers = local_hosts.reached(self.session_url(server) + path)
        headers["Authorization"] = f"token {self.token}"
        # As patient as a page: the server first waits for the kernel, whose job may be over.
        patient = {"connect_timeout": 120.0, "request_timeout": 120.0}
        request = HTTPRequest(url.replace("http", "ws", 1), headers=headers, **patient)
        return await websocket_connect(request)

    def page(self, path: str) -> str:
        """Return the visible text of a Hub page, with white space folded."""
        html = self.http.get(path).text
        html = re.sub(r"(?s)<(script|style|head).*?</\1>", " ", html)
        return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def without_session(person: Person, server: str = "") -> Iterator[Person]:
    """Yield the person once, with no session ``server`` before and after: for a fixture."""
    person.stop(server)
    yield person
    person.stop(server)


def with_session(person: Person, options: dict[str, Any]) -> Iterator[Person]:
    """Yield the person once, with a running session of these options: for a fixture."""
    person.stop()
    answer = person.launch(options)
    assert answer.status_code in (201, 202), answer.text
    try:
        person.wait_ready()
        yield person
    finally:
        person.stop()
