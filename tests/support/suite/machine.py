"""How slow this machine is, measured once, at the start of a run.

``patience`` gives waits a generous end: a wait is a condition, and its end says only that it will
never come true. It grows with the time that the machine takes, so also if it is busy. ``slower``
counts the processor alone, and is for limits of what the portal itself computes
(`machine_clock.awake`)."""

from __future__ import annotations

import functools
import os
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

_KNOWN = "PORTAL_TEST_MACHINE"  # environment variable: both factors, for all processes of a run
# Seconds on the machine for which the suite's waits and limits were chosen, when it is quiet.
_HUNDRED_FORKS, _COMPUTATION = 0.06, 0.045
_MOST = 8.0  # a machine still slower would take a day


class Slowness(NamedTuple):
    """Factors from 1 (the machine that the suite was made for) on: of time, and of processor."""

    time: float
    processor: float


@functools.cache
def slowness() -> Slowness:
    """Return this run's factors; measure them (0.3 s) if no process of it has done so."""
    if known := os.environ.get(_KNOWN):
        return Slowness(*map(float, known.split()))
    forks, _ = _median(_fork)
    computation, processor = _median(_compute)
    measured = Slowness(
        min(_MOST, max(1.0, forks / _HUNDRED_FORKS, computation / _COMPUTATION)),
        min(_MOST, max(1.0, processor / _COMPUTATION)),
    )
    os.environ[_KNOWN] = f"{measured.time:.2f} {measured.processor:.2f}"
    return measured


def patience(seconds: float) -> float:
    """Return how long to wait here for what is given ``seconds`` on a quiet, fast machine."""
    return seconds * slowness().time


def _median(work: Callable[[], None]) -> tuple[float, float]:
    """Return the median seconds of ``work``: of time, and of this process's processor time."""
    times, processor = [], []
    for _ in range(3):
        began, computed = time.perf_counter(), time.process_time()
        work()
        times.append(time.perf_counter() - began)
        processor.append(time.process_time() - computed)
    return statistics.median(times), statistics.median(processor)


def _fork() -> None:
    for _ in range(100):
        os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)


def _compute() -> None:
    value = 0
    for number in range(1_000_000):
        value = (value * 31 + number) & 0xFFFFFFFF
    assert value == 2_028_822_816
