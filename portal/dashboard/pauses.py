"""Shorter pauses for all requests during a refresh of thousands of jobs.

Two things of Python make them long. Threads take turns of 5 ms: a request that sends and receives
ten times waits ten turns while a refresh computes. And the garbage collector goes through all
items of a view again and again, in the middle of a refresh: 200 ms for ten thousand jobs. The
items are plain values, freed by reference counting; reference cycles, which need the collector,
are rare and can wait for a quiet moment.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

_TURN = 0.001  # seconds
_PERIOD = 600.0  # seconds between two full collections
_NEVER = 1_000_000  # collections of the younger generations before Python makes a full one


class Pauses:
    """Control of the pauses. One per process, since both settings are of the whole process."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    @contextmanager
    def shortened(self) -> Iterator[None]:
        """Keep the pauses short while the block runs. Objects that exist at its beginning
        (modules, settings) are exempt from collection."""
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
        """Run a full collection, if it is time; to be called between two refreshes."""
        if time.monotonic() - self._last > _PERIOD:
            gc.collect()
            self._last = time.monotonic()
