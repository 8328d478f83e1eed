"""Waits until the environments of a fresh demo are tested: before that they are not offered."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable
from typing import Any

_PATIENCE = 300.0  # seconds
_LIVE = ("waiting", "running")


def await_tests(url: str, token: str, say: Callable[[str], None]) -> bool:
    """Wait until there are tests at ``url`` and none is under way; say so where that takes long.
    Return whether all have passed.

    They run one after another as jobs of the demo's own Slurm. A demo that was started before
    knows what they said, and does not wait.
    """
    began, told = time.monotonic(), False
    while time.monotonic() - began < _PATIENCE:
        tests = _tests(url, token)
        live = [one for one in tests if one["state"] in _LIVE]
        if tests and not live:
            if told:
                say(f"environments: tested after {time.monotonic() - began:.0f} s")
            for one in tests:
                if one["state"] != "passed":
                    where = one["gpu_type"] or "CPUs"
                    say(f"environment {one['name']} on {where}: {one['state']}. {one['message']}")
            return all(one["state"] == "passed" for one in tests)
        if not told:
            say("testing the environments: what was never tested is not offered")
            told = True
        time.sleep(0.3)
    say("the tests of the environments go on; the page of the catalog shows how they went")
    return False


def _tests(url: str, token: str) -> list[dict[str, Any]]:
    """The newest fifty; none while the service does not answer."""
    request = urllib.request.Request(  # noqa: S310 - http, made by the demo
        url, headers={"Authorization": f"token {token}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            found: list[dict[str, Any]] = json.load(answer)["items"]
            return found
    except (OSError, ValueError, KeyError):
        return []
