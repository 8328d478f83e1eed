"""Stand between Playwright and Debian's Firefox: python firefox_relay.py FIREFOX OPTIONS…

Playwright drives Firefox by WebDriver BiDi, and asks for commands that Debian's ESR (140) does not
have yet. The relay starts Firefox, prints the line by which Playwright finds it, with a port of the
relay's own, and passes every message on; what this Firefox does not know, the relay answers.
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
_LARGEST = 64 * 1024 * 1024  # a picture of a whole page is one message
# Playwright 1.65 asks for these at each start, and the tests use none of them: bodies of responses,
# downloads, and what a screen is said to be beside the size of the page.
_ANSWERS: dict[str, dict[str, Any]] = {
    "network.addDataCollector": {"collector": "none"},
    "browser.setDownloadBehavior": {},
    "emulation.setScreenOrientationOverride": {},
    "emulation.setScreenSettingsOverride": {},
    "emulation.setMediaFeaturesOverride": {},
}


class Relay(WebSocketHandler):
    """One connection of Playwright's, and its own to Firefox."""

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
        """Give the relay's answer where Firefox says that it does not know the command."""
        answer = json.loads(message)
        method = self.unanswered.pop(answer.get("id"), None)
        if method is None or answer.get("error") != "unknown command":
            return message
        return json.dumps({"type": "success", "id": answer["id"], "result": _ANSWERS[method]})

    def on_close(self) -> None:
        if self.firefox.done() and not self.firefox.exception():
            self.firefox.result().close()


async def main() -> int:
    firefox = await asyncio.create_subprocess_exec(*sys.argv[1:], stderr=asyncio.subprocess.PIPE)
    assert firefox.stderr is not None
    async for line in firefox.stderr:
        words = line.decode(errors="replace")
        if words.startswith(LISTENING):
            address = words.removeprefix(LISTENING).strip()
            routes = [("/session", Relay, {"firefox": address})]
            (socket,) = bind_sockets(0, "127.0.0.1")
            HTTPServer(Application(routes, websocket_max_message_size=_LARGEST)).add_socket(socket)
            words = f"{LISTENING}ws://127.0.0.1:{socket.getsockname()[1]}\n"
        sys.stderr.write(words)
        sys.stderr.flush()
    return await firefox.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
