"""Automatic tests of catalog environments that were never tested or whose image has changed."""

from __future__ import annotations

import asyncio

from portal.errors import InvalidRequest
from portal.models.catalog.catalog import EnvironmentTest
from portal.models.catalog.environment import Environment, Kind
from portal.models.catalog.image_job import LIVE, WorkState
from portal.models.cluster.cluster import ClusterSnapshot
from portal.store import Store

from ..availability import Mark, closed_reason, mark_of, needs_test
from ..files import EnvironmentCatalog
from .ages import Ages
from .settings import BuildSettings
from .testing import TestQueue, types_to_test, untested

NOBODY = "portal"  # the asker of automatic tests
_JUDGED = (WorkState.PASSED, WorkState.FAILED)


class AutoTest:
    """Automatic tester of the catalog of one scheduler."""

    def __init__(
        self,
        settings: BuildSettings,
        store: Store,
        catalog: EnvironmentCatalog,
        tests: TestQueue,
    ) -> None:
        self._settings, self._store, self._catalog, self._tests = settings, store, catalog, tests
        self._ages = Ages()

    def candidates(self) -> list[Environment]:
        """Return the environments that are offered only after a test and could be tested."""
        if self._catalog.offering.verdicts is None:
            return []  # unknown verdicts are no reason to test again
        return [
            environment
            for environment in self._catalog.environments.values()
            if needs_test(environment) and not closed_reason(environment)
        ]

    async def queue_tests(self, candidates: list[Environment], snapshot: ClusterSnapshot) -> None:
        """Add tests for those of ``candidates`` that need some."""
        offering = self._catalog.offering
        missing = {
            candidate.name: untested(
                candidate,
                types_to_test(candidate, snapshot),
                offering.tested(candidate),
                offering.mark_of(candidate),
            )
            for candidate in candidates
        }
        if not any(missing.values()):
            return
        outcomes = await self._store.tests.outcomes()  # judged since the catalog read them?
        for environment in candidates:
            known = outcomes.get(environment.fingerprint, {})
            mark = offering.mark_of(environment)
            types = untested(environment, missing[environment.name], known, mark)
            types = await self._untried(environment, types) if types else []
            if types:
                await self._tests.queue_tests(environment, None, types, NOBODY)

    async def _untried(self, environment: Environment, types: list[str]) -> list[str]:
        """Return ``types`` less those being tested and those that could not be run recently."""
        newest = await self._store.tests.newest(environment.fingerprint)

        def due(test: EnvironmentTest | None) -> bool:
            if test is None or test.state in _JUDGED:
                return True
            age = self._ages.age_of(test.id, test.ended_at or 0.0)
            return test.state not in LIVE and age > self._settings.again_after

        return [gpu_type for gpu_type in types if due(newest.get(gpu_type))]

    @staticmethod
    def demand_image(environment: Environment) -> None:
        """Raise InvalidRequest if there is nothing to test."""
        if environment.kind is Kind.CONTAINER and not environment.image:
            raise InvalidRequest(
                f"'{environment.title}' has no image yet: build one from its source first.", "image"
            )

    @staticmethod
    async def mark(environment: Environment) -> Mark | None:
        """Return the current mark of its image file."""
        return await asyncio.to_thread(mark_of, environment.image or "")
