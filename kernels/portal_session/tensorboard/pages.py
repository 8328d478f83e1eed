"""Pages: the list of TensorBoards, and the one that is shown until a TensorBoard answers."""

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
    """``GET portal/tensorboard/``."""

    def initialize(self, boards: TensorBoards) -> None:
        self.boards = boards

    @web.authenticated
    def get(self) -> None:
        _finish(self, "list.html", self.boards, folder=self.get_argument("folder", ""))


def show_waiting(handler: Any, boards: TensorBoards, number: int, path: str) -> bool:
    """Answer a request for TensorBoard ``number`` that TensorBoard itself cannot answer yet.

    Return True if it was answered. A page (the path "") waits until all logs have been read once,
    unless it is requested with ``?now``; other requests wait only until TensorBoard listens.
    """
    board = boards.get(number)
    is_page = path.strip("/") == "" and handler.request.method in ("GET", "HEAD")
    listens = board is not None and board["state"] != "ended" and boards.socket(number) is not None
    if listens:
        now = "now" in handler.request.query_arguments
        if not is_page or now or (board and board["state"] == "ready"):
            return False
    if board is None or board["state"] == "ended":
        handler.set_status(410)
    elif not is_page:
        handler.set_status(503)
        handler.set_header("Retry-After", "1")
    if is_page:
        _finish(handler, "waiting.html", boards, board=board)
    else:
        message = board["words"] if board and board["words"] else "TensorBoard is not available."
        handler.set_header("Content-Type", "application/json")
        handler.finish(json.dumps({"message": message}))
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
