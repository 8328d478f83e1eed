"""Test session of a named user: launched through the Hub's API, with a kernel that calculates, and
stopped."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest, HTTPResponse
from tornado.websocket import websocket_connect

from portal.catalog.definitions.document import read_document
from portal.errors import NotFound, StartFailed, Unavailable

from . import contents
from .place import CONFIG, HUB, Place
from .plan import HUB_UNIT, PROXY_UNIT, SECRETS

_START, _STEP = 600.0, 60.0  # seconds: a job may wait for a node
Say = Callable[[str], None]


def run_as_hub(answers: dict[str, Any], place: Place, words: list[str], **more: Any) -> Any:
    """Run this installation's Python as the Hub's account, in its folder and with its secrets."""
    account = answers["account"]
    return subprocess.run(
        [sys.executable, "-m", *words],
        user=account,
        group=account,
        extra_groups=[],
        cwd=place.path(HUB),
        env={"PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8", **_secrets(place)},
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
        **more,
    )


class Trial:
    """Test session. ``say`` gets a line with its time for each step."""

    def __init__(self, answers: dict[str, Any], place: Place, say: Say) -> None:
        self._answers, self._place, self._say = answers, place, say
        self._user = answers["test_user"]
        proxy, _, hub, _ = answers["ports"]
        self._api, self._proxy = f"http://127.0.0.1:{hub}/hub/api", f"127.0.0.1:{proxy}"
        self._headers: dict[str, str] = {}

    async def wait(self) -> None:
        """Wait for the Hub. Raises Unavailable."""
        with self._timed("the Hub answers"):
            await self._wait_for_hub()

    async def run(self) -> None:
        """Run all of it; the session and the token are gone at the end. Raises PortalError."""
        with self._timed(f"a token of {self._user}"):
            token = self._token()
        self._headers = {"Authorization": f"token {token['token']}"}
        user = f"/users/{self._user}"
        started = False
        try:
            if (await self._model())["servers"].get(""):
                raise Unavailable(
                    f"{self._user} has a session: the test would end it. Name another test_user."
                )
            with self._timed("launched"):
                started = True
                await self._ask("POST", f"{user}/server", self._options())
            with self._timed("the session is ready"):
                url = await self._ready()
            with self._timed("a kernel calculates 1+1"):
                await self._calculate(url)
        finally:
            if started:
                with self._timed("stopped"), contextlib.suppress(Unavailable):
                    await self._ask("DELETE", f"{user}/server")
                    await self._gone()
            with contextlib.suppress(Unavailable):
                await self._ask("DELETE", f"{user}/tokens/{token['id']}")

    def _options(self) -> dict[str, Any]:
        if chosen := self._answers["environment"]:
            name, _ = contents.environment(chosen)
        else:
            files = sorted(self._place.path(contents.ENVIRONMENTS).glob("*.yaml"))
            if not files:
                raise NotFound(
                    f"There is no environment in {contents.ENVIRONMENTS}, so there is no test "
                    "session. Answer one: environment, an image or a venv on the nodes."
                )
            name = str(read_document(files[0].read_bytes()).data.get("name", files[0].stem))
        return {"environment": name, "gpus": 0, "time": "0:10:00"}

    async def _wait_for_hub(self) -> None:
        """Wait until the proxy has the route of the web service, which the Hub makes at the end of
        its start."""
        give_up = time.monotonic() + _STEP
        while not await self._has_route():
            if time.monotonic() > give_up:
                raise Unavailable(
                    f"The portal does not answer at http://{self._proxy}/services/portal/. See: "
                    f"journalctl -u {PROXY_UNIT} -u {HUB_UNIT}"
                )
            await asyncio.sleep(0.5)

    async def _has_route(self) -> bool:
        host = self._answers["host_name"]
        request = HTTPRequest(
            f"http://{self._proxy}/services/portal/",
            headers={"Host": host} if self._answers["https"] != "none" else None,
            follow_redirects=False,
        )
        try:
            answer = await AsyncHTTPClient().fetch(request, raise_error=False)
        except (OSError, HTTPClientError):
            return False
        return answer.code in (200, 302)

    def _token(self) -> dict[str, str]:
        words = ["portal.setup.trial_token", self._user, str(self._place.path(CONFIG))]
        done = run_as_hub(self._answers, self._place, words, capture_output=True)
        try:
            return dict(json.loads(done.stdout.splitlines()[-1]))
        except (ValueError, IndexError):
            lines = done.stderr.strip().splitlines()
            raise Unavailable(
                "No token could be made in the Hub's database: "
                f"{lines[-1] if lines else 'no answer'}"
            ) from None

    async def _model(self) -> dict[str, Any]:
        return await self._ask("GET", f"/users/{self._user}")

    async def _ready(self) -> str:
        """Return the session's URL when it is ready."""
        give_up = time.monotonic() + _START
        while time.monotonic() < give_up:
            model = (await self._model())["servers"].get("")
            if model is None:
                raise StartFailed(
                    f"The session has ended before it was ready. Its job's log is in "
                    f"{self._answers['log_directory']}, and its reason on the Sessions page."
                )
            if model["ready"]:
                return str(model.get("full_url") or model["url"])
            await asyncio.sleep(0.5)
        raise StartFailed(f"The session was not ready within {_START:.0f} s: is a node free?")

    async def _gone(self) -> None:
        for _ in range(round(_STEP)):
            if (await self._model())["servers"].get("") is None:
                return
            await asyncio.sleep(1)

    async def _calculate(self, url: str) -> None:
        parts = urlsplit(url)
        headers = {**self._headers, **({"Host": parts.netloc} if parts.netloc else {})}
        base = f"http://{self._proxy}{parts.path}"
        made = await self._fetch("POST", f"{base}api/kernels", {}, headers)
        kernel = json.loads(made.body)["id"]
        path = f"ws://{self._proxy}{parts.path}api/kernels/{kernel}/channels"
        socket = await websocket_connect(HTTPRequest(path, headers=headers, connect_timeout=20))
        try:
            result = await asyncio.wait_for(_one_and_one(socket), _STEP)
        except TimeoutError:
            raise StartFailed(f"The kernel did not answer within {_STEP:.0f} s.") from None
        finally:
            socket.close()
        if result != "2":
            raise StartFailed(f"The kernel answered {result!r} to 1+1.")

    async def _ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = await self._fetch(method, self._api + path, body, self._headers)
        return json.loads(answer.body) if answer.body else {}

    async def _fetch(
        self, method: str, url: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> HTTPResponse:
        request = HTTPRequest(
            url,
            method,
            headers=headers,
            body=None if body is None else json.dumps(body),
            request_timeout=_STEP,
            allow_nonstandard_methods=True,
        )
        try:
            return await AsyncHTTPClient().fetch(request)
        except HTTPClientError as error:
            raw = error.response.body if error.response else b""
            try:
                words = str(json.loads(raw)["message"])
            except (ValueError, KeyError, TypeError):
                words = str(error)
            raise Unavailable(f"{method} {urlsplit(url).path}: {words}") from None
        except OSError as error:
            raise Unavailable(f"{urlsplit(url).netloc} does not answer: {error}") from None

    @contextlib.contextmanager
    def _timed(self, words: str) -> Iterator[None]:
        start = time.monotonic()
        yield
        self._say(f"{time.monotonic() - start:7.2f} s  {words}")


async def _one_and_one(socket: Any) -> str:
    """Return what the kernel displays for ``1+1``."""
    id = uuid.uuid4().hex
    header = {"msg_id": id, "msg_type": "execute_request", "session": id, "username": ""}
    header |= {"version": "5.3", "date": "2026-01-01T00:00:00Z"}
    content = {"code": "1+1", "silent": False, "store_history": False, "allow_stdin": False}
    message = {"header": header, "parent_header": {}, "metadata": {}, "content": content}
    await socket.write_message(json.dumps({**message, "buffers": [], "channel": "shell"}))
    while (raw := await socket.read_message()) is not None:
        answer = json.loads(raw)
        if answer["parent_header"].get("msg_id") != id:
            continue
        if answer["msg_type"] == "execute_result":
            return str(answer["content"]["data"]["text/plain"])
        if answer["msg_type"] == "error":
            return str(answer["content"]["evalue"])
    return "the connection was closed"


def _secrets(place: Place) -> dict[str, str]:
    """Return the variables of secrets.env, as systemd reads plain lines of it."""
    lines = place.path(SECRETS).read_text().splitlines()
    pairs = [
        line.partition("=") for line in lines if "=" in line and not line.startswith(("#", ";"))
    ]
    return {key.strip(): value.strip().strip("\"'") for key, _, value in pairs}
