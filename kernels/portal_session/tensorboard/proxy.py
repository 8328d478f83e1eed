"""Proxy to a TensorBoard."""

from __future__ import annotations

from ..programs.proxy import SessionProxy
from ..programs.target import Target
from .pages import show_waiting
from .running import TensorBoards


class TensorBoardProxy(SessionProxy):
    """``/portal/tensorboard/NUMBER/…``: TensorBoard serves below the same path (--path_prefix). No
    request counts as activity: a TensorBoard in a forgotten tab polls for ever."""

    title = "TensorBoard"
    is_activity = False

    def initialize(self, boards: TensorBoards, number: str) -> None:
        self._boards, self._number = boards, int(number)

    def target(self) -> Target | None:
        socket = self._boards.socket(self._number)
        return Target(socket) if socket else None

    def answered(self, path: str) -> bool:
        return show_waiting(self, self._boards, self._number, path)
