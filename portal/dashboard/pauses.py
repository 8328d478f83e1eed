"""Keeps the pauses short that a refresh of thousands of jobs makes for everybody else.

Two things of Python make them long. Threads take turns of 5 ms: a request that sends and receives
ten times waits ten turns while a refresh computes. And the garbage collector goes through all items
of a view again and again, in the middle of a refresh: 200 ms for ten thousand jobs. The items are
plain values that go as soon as nobody holds them; what the collector is needed for, objects that
hold each other, is rare and can wait for a quiet moment.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

_TURN = 0.001  # seconds
_PERIOD = 600.0  # seconds between two looks at everything
_NEVER = 1_000_000  # looks at the young objects, until Python would look at everything by itself


class Pauses:
    """One a process, since both are settings of the whole process."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    @contextmanager
    def kept_short(self) -> Iterator[None]:
        """As long as the block runs. What is there at its beginning (modules, settings) is not
        looked at any more."""
        turn, (young, middle, old) = sys.getswitchinterval(), gc.get_threshold()
        sys.setswitchinterval(_TURN)
        gc.collect()
        gc.freeze()
        gc.set_threshold(young, middle, _NEVER)
        try:
            yield
        finally:
            gc.set_threshold(young, middle, old)
            gc.unfreeze()
            sys.setswitchinterval(turn)

    def tidy(self) -> None:
        """Look at everything, if it is time; to be called between two refreshes."""
        if time.monotonic() - self._last > _PERIOD:
            gc.collect()
            self._last = time.monotonic()
