"""Refuse processes in tests/unit: what needs one belongs beside the real parts.

Forks are refused with them; threads, sockets on loopback and files are fine.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

_STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system"}
_running: list[str] = []  # the test that runs now, where it is one of this folder


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    """Raise RuntimeError where a test starts a process (sys.addaudithook, PEP 578)."""
    if _running and event in _STARTS:
        raise RuntimeError(
            f"{_running[0]} starts a process ({event}: {arguments[:1]}): tests/unit has tests that "
            "start none. CONTRIBUTING.md says where this one belongs."
        )


sys.addaudithook(_refuse)


@pytest.fixture(autouse=True)
def no_process(request: pytest.FixtureRequest) -> Iterator[None]:
    """Refuse processes while the test runs."""
    _running[:] = [request.node.nodeid]
    yield
    _running.clear()
