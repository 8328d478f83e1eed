"""Waits and limits grow with the slowness of the machine (tests/support/suite/machine.py)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import hub_client
import machine
import machine_clock
import pytest


@pytest.fixture(autouse=True)
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("PORTAL_TEST_MACHINE")
    machine.slowness.cache_clear()
    yield
    machine.slowness.cache_clear()


def test_a_machine_half_as_fast_has_twice_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def compute() -> None:
        end = time.process_time() + 2 * machine._COMPUTATION
        while time.process_time() < end:
            pass

    monkeypatch.setattr(machine, "_compute", compute)
    measured = machine.slowness()
    assert measured.time >= 2.0 and 1.9 < measured.processor < 2.5
    assert machine.patience(60) >= 120


def test_a_busy_machine_has_time_and_the_same_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_fork", lambda: time.sleep(3 * machine._HUNDRED_FORKS))
    monkeypatch.setattr(machine, "_compute", lambda: time.sleep(2 * machine._COMPUTATION))
    measured = machine.slowness()
    assert measured.time >= 3.0 and measured.processor == 1.0


def test_a_fast_machine_has_no_less_and_a_dead_one_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    for work in ("_fork", "_compute"):
        monkeypatch.setattr(machine, work, lambda: None)
    assert machine.slowness() == (1.0, 1.0)
    monkeypatch.setattr(machine, "_median", lambda work: (100.0, 100.0))
    machine.slowness.cache_clear()
    monkeypatch.delenv("PORTAL_TEST_MACHINE")
    assert machine.slowness() == (8.0, 8.0)


def test_all_processes_of_a_run_have_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTAL_TEST_MACHINE", "4.00 2.00")
    assert machine.patience(10) == 40
    began, awake = time.monotonic(), machine_clock.awake()
    time.sleep(0.2)
    assert machine_clock.awake() - awake < 0.9 * (time.monotonic() - began)


def test_a_wait_of_the_suite_has_its_end_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a fast machine has within its second, one that is half as fast has in two."""
    begin = time.monotonic()
    monkeypatch.setenv("PORTAL_TEST_MACHINE", "2.50 2.50")
    hub_client.wait_until("it is there", lambda: time.monotonic() > begin + 0.4, 0.2, every=0.02)
    with pytest.raises(AssertionError, match="it never comes"):
        hub_client.wait_until("it never comes", lambda: False, 0.02, every=0.02)
