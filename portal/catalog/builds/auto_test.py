"""Automatic tests of catalog environments that were never tested or whose image has changed, and
of all whose tests the site kept from running."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from portal.errors import InvalidRequest
from portal.models.catalog.catalog import EnvironmentTest, EnvironmentVersion
from portal.models.catalog.environment import Environment, EnvironmentKind, EnvironmentState
from portal.models.catalog.image_job import LIVE, WorkState
from portal.models.cluster.cluster import ClusterSnapshot, Partition
from portal.store import Store

from ..availability import Mark, closed_reason, mark_of, needs_test
from ..files import EnvironmentCatalog
from .ages import Ages
from .failure_reason import limit_changed
from .settings import BuildSettings
from .testing import TestQueue, types_to_test, untested

NOBODY = "portal"  # the asker of automatic tests
_JUDGED = (WorkState.PASSED, WorkState.FAILED)
_LOOK = 60.0  # seconds between two looks at versions whose tests could not run


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
        self._changed_at = self._looked_at = 0.0
        self._note_change()  # the settings of a service that starts may be others
        self._partitions: Mapping[str, Partition] = {}

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
        self._compare(snapshot)
        offering = self._catalog.offering
        missing = {
            candidate.name: untested(
                candidate,
                types_to_test(candidate, snapshot),
                offering.tested(candidate),
                offering.mark_of(candidate),
                self._settings.images,
            )
            for candidate in candidates
        }
        if not any(missing.values()):
            return
        outcomes = await self._store.tests.outcomes()  # judged since the catalog read them?
        for environment in candidates:
            known = outcomes.get(environment.fingerprint, {})
            mark = offering.mark_of(environment)
            images = self._settings.images
            types = untested(environment, missing[environment.name], known, mark, images)
            types = await self._untried(environment, types) if types else []
            if types:
                await self._tests.queue_tests(environment, None, types, NOBODY)

    async def _untried(self, environment: Environment, types: list[str]) -> list[str]:
        """Return ``types`` less those being tested and those that could not be run recently."""
        newest = await self._store.tests.newest(environment.fingerprint)

        def due(test: EnvironmentTest | None) -> bool:
            return test is None or test.state in _JUDGED or self._again(test)

        return [gpu_type for gpu_type in types if due(newest.get(gpu_type))]

    def _again(self, test: EnvironmentTest) -> bool:
        """Return True if a test that gave no verdict is to be tried again: after a while, or at
        once if the site has changed since."""
        if test.state in LIVE:
            return False
        age = self._ages.age_of(test.id, test.ended_at or 0.0)
        changed = test.state is WorkState.UNKNOWN and age > self._since_change()
        return changed or age > self._settings.again_after

    def _note_change(self) -> None:
        self._changed_at, self._looked_at = time.time(), float("-inf")
        self._since_change()

    def _since_change(self) -> float:
        """Return the seconds since the site has changed, as far as the service knows."""
        return self._ages.age_of(0, self._changed_at)

    def _compare(self, snapshot: ClusterSnapshot) -> None:
        """Note whether Slurm's partitions have changed, which may cure tests that could not run."""
        if self._partitions and self._partitions != snapshot.partitions:
            self._note_change()
        self._partitions = snapshot.partitions

    async def failed_versions(self) -> list[EnvironmentVersion]:
        """Return the newest versions of environments that have failed, once a minute; else []."""
        if time.monotonic() - self._looked_at < _LOOK:
            return []
        self._looked_at = time.monotonic()
        versions = (await self._store.versions.newest()).values()
        return [version for version in versions if version.state is EnvironmentState.FAILED]

    async def retry(self, versions: list[EnvironmentVersion], snapshot: ClusterSnapshot) -> None:
        """Test those of ``versions`` again whose tests the site kept from running: Slurm refused
        them, a node failed, or a limit was too low that is another one now."""
        self._compare(snapshot)
        for version in versions:
            environment = version.environment
            newest = await self._store.tests.newest(environment.fingerprint)
            offered = set(types_to_test(environment, snapshot))
            types = [name for name, test in newest.items() if name in offered and self._cured(test)]
            if "" not in types:
                continue
            await self._tests.queue_tests(environment, version.number, types, NOBODY)
            state = EnvironmentState.TESTING
            await self._store.versions.change(version.name, version.number, state=state, message="")

    def _cured(self, test: EnvironmentTest) -> bool:
        if test.state is WorkState.FAILED:
            resources = self._settings.images.resources_of_test(test.gpu_type)
            return limit_changed(test.message, resources)
        return test.state is WorkState.UNKNOWN and self._again(test)

    @staticmethod
    def demand_image(environment: Environment) -> None:
        """Raise InvalidRequest if there is nothing to test."""
        if environment.kind is EnvironmentKind.CONTAINER and not environment.image:
            raise InvalidRequest(
                f"'{environment.title}' has no image yet: build one from its source first.", "image"
            )

    @staticmethod
    async def mark(environment: Environment) -> Mark | None:
        """Return the current mark of its image file."""
        return await asyncio.to_thread(mark_of, environment.image or "")
