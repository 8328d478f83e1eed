"""Routes below ``portal/tensorboard/``: the page, its API, and the proxy."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from jupyter_server.base.handlers import APIHandler, FileFindHandler, JupyterHandler
from tornado import web

from ..programs.handlers import AddSlash
from ..programs.late import LateProxy
from .folders import FolderRefused, browse, resolve
from .pages import HERE, ListPage
from .running import TensorBoards, TooMany

_PROXY = f"{__package__}.proxy:TensorBoardProxy"


def add_handlers(web_app: Any, boards: TensorBoards) -> None:
    prefix = re.escape(boards.prefix)
    given = {"boards": boards}
    late = LateProxy(web_app, _PROXY, lambda number: {**given, "number": number}, "TensorBoard")
    web_app.add_handlers(
        ".*",
        [
            (prefix, ListPage, given),
            (f"{prefix}api/running", Running, {**given, "late": late}),
            (f"{prefix}api/running/([0-9]{{1,5}})", TensorBoardHandler, given),
            (f"{prefix}api/folders", Folders, given),
            (f"{prefix}static/(.*)", FileFindHandler, {"path": [str(HERE / "static")]}),
            (f"(?:{prefix[:-1]}|{prefix}[0-9]{{1,5}})", AddSlash),
        ],
    )
    late.add_route(f"{prefix}([0-9]{{1,5}})/(.*)")


def open_with_it(web_app: Any, boards: TensorBoards) -> None:
    """Make TensorBoard the first page of the session, for one that serves nothing else."""
    home = re.escape(web_app.settings["base_url"])
    web_app.add_handlers(".*", [(home, Home, {"boards": boards})])


class Home(JupyterHandler):
    def initialize(self, boards: TensorBoards) -> None:
        self.boards = boards

    @web.authenticated
    def get(self) -> None:
        running = [board for board in self.boards.list() if board["state"] != "ended"]
        self.redirect(running[0]["url"] if len(running) == 1 else self.boards.prefix)


class Api(APIHandler):
    """Base class: answers with JSON, and with a sentence in ``message`` for a refusal."""

    def initialize(self, boards: TensorBoards) -> None:
        self.boards = boards

    def refuse(self, status: int, message: str) -> None:
        self.set_status(status)
        self.finish(json.dumps({"message": message}))


class Running(Api):
    def initialize(self, boards: TensorBoards, late: LateProxy) -> None:
        super().initialize(boards)
        self.late = late

    @property
    def _track_activity(self) -> bool:
        # A page that polls the list every few seconds is no activity.
        return self.request.method != "GET"

    @web.authenticated
    async def get(self) -> None:
        """List the TensorBoards: {"running": […]}."""
        boards = await asyncio.to_thread(self.boards.list)
        self.finish(json.dumps({"running": boards}))

    @web.authenticated
    async def post(self) -> None:
        """Start a TensorBoard: {"folders": […], "name": "…" or nothing} → 201 and the
        TensorBoard."""
        body = self.get_json_body() or {}
        if not isinstance(body, dict):
            return self.refuse(400, "The body must be an object with 'folders'.")
        try:
            board = self.boards.start(body.get("folders"), body.get("name"))
        except FolderRefused as error:
            return self.refuse(400, str(error))
        except TooMany as error:
            return self.refuse(409, str(error))
        self.late.begin()
        self.set_status(201)
        self.finish(json.dumps(board))
        return None


class TensorBoardHandler(Api):
    @property
    def _track_activity(self) -> bool:
        return self.request.method != "GET"

    @web.authenticated
    def get(self, number: str) -> None:
        board = self.boards.get(int(number))
        if board is None:
            return self.refuse(404, "This TensorBoard is no longer running.")
        self.finish(json.dumps(board))
        return None

    @web.authenticated
    async def delete(self, number: str) -> None:
        if not await asyncio.to_thread(self.boards.stop, int(number)):
            return self.refuse(404, "This TensorBoard is no longer running.")
        self.set_status(204)
        self.finish()
        return None


class Folders(Api):
    @web.authenticated
    async def get(self) -> None:
        """List the folders in ``?path=``, or in the first root if it is empty."""
        path = self.get_argument("path", "") or self.boards.roots[0]

        def list_folders() -> dict[str, Any]:
            return browse(resolve(path, self.boards.roots, self.boards.base), self.boards.roots)

        try:
            listing = await asyncio.to_thread(list_folders)
        except FolderRefused as error:
            return self.refuse(400, str(error))
        self.finish(json.dumps(listing))
        return None
