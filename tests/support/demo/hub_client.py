"""A person with a browser's manners, for tests: the login form, then the Hub's REST API."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

import httpx
import local_hosts
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

PASSWORD = "portal-demo"


def wait_until(
    what: str, check: Callable[[], Any], timeout: float = 120, every: float = 0.25
) -> Any:
    """Call ``check`` until it gives something true, and return that; fail after ``timeout`` s."""
    deadline = time.monotonic() + timeout
    while True:
        found = check()
        if found:
            return found
        assert time.monotonic() < deadline, f"{what}: not within {timeout} s"
        time.sleep(every)


class Person:
    """Someone who logged in at ``url``. ``api`` calls go out with a token of their own."""

    def __init__(self, url: str, name: str, password: str = PASSWORD) -> None:
        self.url, self.name = url.rstrip("/"), name
        self.http = local_hosts.client(self.url)
        self.login_answer = self.login(password)
        self.token = ""

    def login(self, password: str) -> httpx.Response:
        """Fill in the login form; the answer after all redirects. A directory that did not answer
        in time is asked again."""
        for _ in range(3):
            self.http.get("/hub/login")
            form = {"username": self.name, "password": password, "_xsrf": self.xsrf}
            answer = self.http.post("/hub/login", data=form)
            if answer.status_code != 503:
                break
        return answer

    @property
    def xsrf(self) -> str:
        """The Hub's: the service and each session have one of their own."""
        cookies = (c for c in self.http.cookies.jar if (c.name, c.path) == ("_xsrf", "/hub/"))
        return next((cookie.value or "" for cookie in cookies), "")

    @property
    def logged_in(self) -> bool:
        return "/hub/login" not in str(self.login_answer.url)

    def api(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """A call of the Hub's REST API as this person."""
        if not self.token:
            answer = self.http.post(
                f"/hub/api/users/{self.name}/tokens",
                params={"_xsrf": self.xsrf},
                json={"note": "test"},
            )
            assert answer.status_code == 201, answer.text
            self.token = answer.json()["token"]
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
        """Ask for a session; answers once it is judged (201 ready, 202 starting, 4xx refused).

        Where Slurm's command failed, as on a machine that stood still for its MessageTimeout, it is
        asked again for ``patience`` seconds; a late answer is the portal's to wait for."""
        give_up = time.monotonic() + patience
        while True:
            answer = self.api("POST", self.server_path(server), options)
            silent = answer.status_code == 503 and "Slurm does not answer now" in answer.text
            silent = silent and "has not answered for" not in answer.text
            if not silent or time.monotonic() > give_up:
                return answer
            time.sleep(1)

    def server(self, name: str = "") -> dict[str, Any]:
        """The Hub's model of one server; {} when there is none."""
        servers = self.api("GET", f"/users/{self.name}").json()["servers"]
        return servers.get(name, {})

    def wait_ready(self, server: str = "", timeout: float = 120) -> dict[str, Any]:
        return wait_until(
            f"{self.name}'s session ready",
            lambda: (model := self.server(server)).get("ready") and model,
            timeout,
        )

    def stop(self, server: str = "", timeout: float = 240) -> None:
        """Stop a session and wait until it is gone; fine when there is none."""
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
        """The address, without a path, of this person's session."""
        return local_hosts.host_of(self.url, self.name, server)

    def session_url(self, server: str = "") -> str:
        """The address of a session's server, with its slash."""
        return f"{self.host(server)}/user/{self.name}/{server + '/' if server else ''}"

    def session(self, method: str, path: str, server: str = "", **kwargs: Any) -> httpx.Response:
        """A call into the running session, through the proxy, with this person's token."""
        headers = {"Authorization": f"token {self.token}", **kwargs.pop("headers", {})}
        url = self.session_url(server) + path
        return local_hosts.request(method, url, headers=headers, **kwargs)

    async def socket(self, path: str, server: str = "") -> WebSocketClientConnection:
        """A websocket of the running session, with this person's token."""
        url, headers = local_hosts.reached(self.session_url(server) + path)
        headers["Authorization"] = f"token {self.token}"
        return await websocket_connect(HTTPRequest(url.replace("http", "ws", 1), headers=headers))

    def page(self, path: str) -> str:
        """The visible text of a Hub page, white space folded."""
        html = self.http.get(path).text
        html = re.sub(r"(?s)<(script|style|head).*?</\1>", " ", html)
        return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))
