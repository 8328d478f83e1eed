"""The page that lists TensorBoards, and the one that is shown until a TensorBoard answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from jupyter_server.base.handlers import JupyterHandler
from tornado import web

from .running import TensorBoards

HERE = Path(__file__).parent
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
_templates = Environment(loader=FileSystemLoader(HERE / "templates"), autoescape=True)


class ListPage(JupyterHandler):
    """GET portal/tensorboard/"""

    def initialize(self, boards: TensorBoards) -> None:
        self.boards = boards

    @web.authenticated
    def get(self) -> None:
        _finish(self, "list.html", self.boards, folder=self.get_argument("folder", ""))


class WaitingPage(JupyterHandler):
    """Stands for the proxy while that is being imported, or when it cannot be."""

    def initialize(self, boards: TensorBoards, number: str, problem: str) -> None:
        self.boards = boards
        self.number = int(number)
        self.problem = problem

    def check_xsrf_cookie(self) -> None:
        """Nothing is changed here."""

    @web.authenticated
    def get(self, path: str) -> None:
        if self.problem:
            self.set_status(503)
            _finish(self, "waiting.html", self.boards, board=None, problem=self.problem)
        elif not show_waiting(self, self.boards, self.number, path, always=True):
            raise web.HTTPError(503, "TensorBoard is being started.")

    @web.authenticated
    def post(self, path: str) -> None:
        raise web.HTTPError(503, self.problem or "TensorBoard is being started.")


def show_waiting(
    handler: Any, boards: TensorBoards, number: int, path: str, *, always: bool = False
) -> bool:
    """Answers a request for TensorBoard ``number`` that TensorBoard itself cannot answer yet.

    True when it did. A page (the path "") waits until all logs have been read once, unless it is
    asked for with ``?now``; everything else only until there is somebody to ask.
    """
    board = boards.get(number)
    is_page = path.strip("/") == "" and handler.request.method in ("GET", "HEAD")
    there = board is not None and board["state"] != "ended" and boards.socket(number) is not None
    if there and not always:
        now = "now" in handler.request.query_arguments
        if not is_page or now or (board and board["state"] == "ready"):
            return False
    if board is None or board["state"] == "ended":
        handler.set_status(410)
    elif not is_page:
        handler.set_status(503)
        handler.set_header("Retry-After", "1")
    if is_page:
        _finish(handler, "waiting.html", boards, board=board, problem="")
    else:
        words = board["words"] if board and board["words"] else "TensorBoard is not there."
        handler.set_header("Content-Type", "application/json")
        handler.finish(json.dumps({"message": words}))
    return True


def _finish(handler: Any, template: str, boards: TensorBoards, **values: Any) -> None:
    handler.set_header("Content-Type", "text/html; charset=utf-8")
    handler.set_header("Content-Security-Policy", POLICY)
    handler.set_header("Cache-Control", "no-store")
    token = handler.xsrf_token
    page = _templates.get_template(template).render(
        prefix=boards.prefix,
        base_url=handler.base_url,
        xsrf=token.decode() if isinstance(token, bytes) else token,
        roots=boards.roots,
        **values,
    )
    handler.finish(page)
