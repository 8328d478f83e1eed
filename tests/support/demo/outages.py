"""Outages of the demo's pieces, for tests."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def without(demo: Any, piece: str) -> Iterator[None]:
    """Stop one piece of the demo, and start it again at the end."""
    demo.control("stop", piece)
    try:
        yield
    finally:
        demo.control("start", piece)
