"""Tests of the catalog's models: a replica of an endpoint of the person who asks for it, which has
to answer the example; then it is stopped.

The results are in the sources of the versions of these endpoints. Only a test writes the keys that
are read there, so nobody can offer a model by a version of their own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from portal.periodic import Periodic
from portal.store import Store

from ..models import EndpointReplica, EndpointVersion
from ..tables import EndpointReplicaTable, EndpointTable, EndpointVersionTable
from .items import FAILED, FINGERPRINT, PASSED, PREFIX, RESULT

_EVERY = 3.0  # seconds
_REPLACED = "Another test of it has begun."


class ModelTests:
    """Loop of the service that records the results of tests. ``changed`` has the endpoints looked
    at."""

    def __init__(self, store: Store, changed: Callable[[], None], log: logging.Logger) -> None:
        self._store, self._changed, self._log = store, changed, log

    async def run(self) -> None:
        """Record results until cancelled."""
        words = "The tests of the catalog of models"
        await Periodic(words, lambda: self.record(time.time()), _EVERY, self._log).run()

    async def record(self, now: float) -> None:
        """Record the results that there are at ``now`` (Unix seconds), and stop what was tried.
        Raises StoreUnavailable."""
        versions = self._store.table(EndpointVersionTable)
        tests = await versions.beginning(PREFIX)
        newest = {test.endpoint: test.number for test in tests}
        for test in tests:
            if FINGERPRINT not in test.source or RESULT in test.source:
                continue
            rows = await self._store.table(EndpointReplicaTable).of_endpoint(test.endpoint)
            replaced = test.number < newest[test.endpoint]
            result, problem = (FAILED, _REPLACED) if replaced else result_of(test, rows)
            if not result:
                continue
            source = {**test.source, RESULT: result, "problem": problem, "ended_at": now}
            await versions.change(test.endpoint, test.number, source=source)
            if not replaced:
                await self._store.table(EndpointTable).change(test.endpoint, shares={})
                self._changed()


def result_of(test: EndpointVersion, rows: Sequence[EndpointReplica]) -> tuple[str, str]:
    """Return PASSED, or FAILED and why; "" while neither is known."""
    if any(row.version == test.number and row.ready_at is not None for row in rows):
        return PASSED, ""
    if test.failures:
        return FAILED, test.problem or "Its replica has ended."
    return "", ""
