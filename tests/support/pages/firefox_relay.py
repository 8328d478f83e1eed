"""Relay between Playwright and Debian's Firefox: python firefox_relay.py FIREFOX OPTIONS…

Playwright drives Firefox by WebDriver BiDi, with commands that Debian's ESR (140) does not have
yet. The relay starts Firefox, prints the line by which Playwright finds it, with the relay's own
port, and forwards all messages; commands unknown to this Firefox are answered by the relay.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application
from tornado.websocket import WebSocketClientConnection, WebSocketHandler, websocket_connect

LISTENING = "WebDriver BiDi listening on "
_LARGEST = 64 * 1024 * 1024  # a screenshot of a whole page is a single message
# Playwright 1.65 sends these at each start, and the tests use none of them: bodies of responses,
# downloads, and properties of the screen other than the size of the page.
_ANSWERS: dict[str, dict[str, Any]] = {
    "network.addDataCollector": {"collector": "none"},
    "browser.setDownloadBehavior": {},
    "emulation.setScreenOrientationOverride": {},
    "emulation.setScreenSettingsOverride": {},
    "emulation.setMediaFeaturesOverride": {},
}


class Relay(WebSocketHandler):
    """Connection of Playwright, and its own connection to Firefox."""

    def initialize(self, firefox: str) -> None:
        self.address = firefox

    async def open(self, *args: str, **kwargs: str) -> None:
        self.unanswered: dict[int, str] = {}
        self.firefox: asyncio.Future[WebSocketClientConnection] = asyncio.ensure_future(
            websocket_connect(f"{self.address}/session", max_message_size=_LARGEST)
        )
        self.answers = asyncio.ensure_future(self._pass_answers())

    async def on_message(self, message: str | bytes) -> None:
        command = json.loads(message)
        if command["method"] in _ANSWERS:
            self.unanswered[command["id"]] = command["method"]
        await (await self.firefox).write_message(message)

    async def _pass_answers(self) -> None:
        firefox = await self.firefox
        while (message := await firefox.read_message()) is not None:
            if self.unanswered:
                message = self._answer(message)
            await self.write_message(message)
        self.close()

    def _answer(self, message: str | bytes) -> str | bytes:
        """Return the relay's response if Firefox does not know the command, else ``message``."""
        response = json.loads(message)
        method = self.unanswered.pop(response.get("id"), None)
        if method is None or response.get("error") != "unknown command":
            return message
        return json.dumps({"type": "success", "id": response["id"], "result": _ANSWERS[method]})

    def on_close(self) -> None:
        if self.firefox.done() and not self.firefox.exception():
            self.firefox.result().close()


async def main() -> int:
    firefox = await asyncio.create_subprocess_exec(*sys.argv[1:], stderr=asyncio.subprocess.PIPE)
    assert firefox.stderr is not None
    async for line in firefox.stderr:
        text = line.decode(errors="replace")
        if text.startswith(LISTENING):
            address = text.removeprefix(LISTENING).strip()
            routes = [("/session", Relay, {"firefox": address})]
            (socket,) = bind_sockets(0, "127.0.0.1")
            HTTPServer(Application(routes, websocket_max_message_size=_LARGEST)).add_socket(socket)
            text = f"{LISTENING}ws://127.0.0.1:{socket.getsockname()[1]}\n"
        sys.stderr.write(text)
        sys.stderr.flush()
    return await firefox.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
