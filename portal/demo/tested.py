"""Waiting for the tests of a new demo's environments, which are not offered before."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ..errors import PortalError
from .service_api import ServiceApi

_PATIENCE = 300.0  # seconds
_LIVE = ("waiting", "running")


def await_tests(service: ServiceApi, say: Callable[[str], None]) -> bool:
    """Wait until ``service`` lists tests and none is waiting or running; return True if all passed.

    ``say`` gets a message if there is something to wait for. The tests run one after another as
    jobs of the demo's own Slurm; a restarted demo has their results and does not wait. Gives up
    after 300 s and returns False.
    """
    began, announced = time.monotonic(), False
    while time.monotonic() - began < _PATIENCE:
        tests = _tests(service)
        live = [test for test in tests if test["state"] in _LIVE]
        if tests and not live:
            if announced:
                say(f"environments: tested after {time.monotonic() - began:.0f} s")
            for test in tests:
                if test["state"] != "passed":
                    where = test["gpu_type"] or "CPUs"
                    say(
                        f"environment {test['name']} on {where}: {test['state']}. {test['message']}"
                    )
            return all(test["state"] == "passed" for test in tests)
        if not announced:
            say("testing the environments: untested ones are not offered")
            announced = True
        time.sleep(0.3)
    say("the tests of the environments continue; see their results in the catalog")
    return False


def _tests(service: ServiceApi) -> list[dict[str, Any]]:
    """Return the newest fifty tests; an empty list while the service does not answer."""
    try:
        tests: list[dict[str, Any]] = service.get("environment-tests")["items"]
    except (PortalError, KeyError):
        return []
    return tests
