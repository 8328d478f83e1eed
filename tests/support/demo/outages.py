"""Outages of the demo's pieces, for tests."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def without(demo: Any, piece: str, how: str = "stop") -> Iterator[None]:
    """Stop one piece of the demo, or "kill" it, and start it again at the end."""
    demo.control(how, piece)
    try:
        yield
    finally:
        demo.control("start", piece)
