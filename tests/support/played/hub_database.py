"""As much of the Hub's database as a spawner's tokens need."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class HubDatabase:
    """The Hub's tokens, by number; ``first`` describes the one with number 1."""

    def __init__(self, **first: Any) -> None:
        self.tokens = {1: SimpleNamespace(id=1, **first)}

    def get(self, kind: Any, number: int) -> Any:
        return self.tokens.get(number)

    def delete(self, row: Any) -> None:
        del self.tokens[row.id]

    def commit(self) -> None:
        pass
