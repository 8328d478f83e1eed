"""Scheduler of image builds and environment tests: Slurm jobs, followed until they end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from portal.errors import Conflict, NotFound
from portal.gpus.settings import Gpus
from portal.models.catalog.catalog import Build, EnvironmentTest, EnvironmentVersion
from portal.models.catalog.environment import Environment, EnvironmentState
from portal.models.catalog.image_job import LIVE, WorkState
from portal.periodic import Periodic

from . import job_monitor, work_logs
from .auto_test import AutoTest
from .building import BuildQueue, with_image
from .pulling import Pulling
from .settings import BuildSettings
from .submitting import Submitter
from .testing import TestQueue, checked_types, types_to_test, untested

if TYPE_CHECKING:
    from portal.slurm import Cluster
    from portal.store import Store

    from ..files import EnvironmentCatalog

WorkKind = Literal["build", "test"]
_SWEEP = 3600.0  # seconds between two sweeps of old logs
_REST = 15.0  # seconds between two turns while nothing is built or tested


class BuildScheduler(BuildSettings):
    """Scheduler of image builds and environment tests; one per service, with ``run`` as its loop.

    Its state is in the database, so a restarted service resumes where it was. Every public method
    raises StoreUnavailable.
    """

    def __init__(
        self, cluster: Cluster, store: Store, catalog: EnvironmentCatalog, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self._cluster, self._store, self._catalog = cluster, store, catalog
        self._jobs = Submitter(cluster, self.images, self.log, Gpus(parent=self))
        self._pulling = Pulling(self.registries, store, self.images)
        self.builds = BuildQueue(self, store, self._jobs, self._pulling)
        self.tests = TestQueue(self, store, catalog, self._jobs)
        self._auto_tests = AutoTest(self, store, catalog, self.tests)
        self._wake = asyncio.Event()
        self._swept_at: float | None = None

    # -- what people ask for -------------------------------------------------------------------

    async def build(self, version: EnvironmentVersion, asker: str) -> Build:
        """Build the image of ``version``; its state becomes BUILDING, then TESTING, then READY or
        FAILED.

        An existing image is reused, and a live build of the same image is joined. Raises
        InvalidRequest (field "source") if the source cannot be resolved, Conflict if this version
        is being built.
        """
        build = await self.builds.queue_build(version, asker)
        self._wake.set()
        return build

    async def test(
        self,
        environment: Environment,
        number: int | None,
        gpu_types: Sequence[str] | None,
        asker: str,
    ) -> list[EnvironmentTest]:
        """Test ``environment`` without GPUs and on ``gpu_types`` (None: all that it is offered
        for); live tests of the same software are joined.

        ``number``: its version, whose state becomes TESTING; None for a file of the catalog. A
        private environment is tested as its owner, others as the service account. Raises
        InvalidRequest for GPUs that this cluster does not have, or if there is no image yet;
        Conflict while the image is being built; SlurmUnavailable.
        """
        self._auto_tests.demand_image(environment)
        if number is not None:
            version = await self._store.versions.get(environment.name, number)
            if version.state is EnvironmentState.BUILDING:
                raise Conflict("The image is being built. It is tested afterwards.")
        snapshot = await self._cluster.snapshot()
        types = types_to_test(environment, snapshot)
        if gpu_types is not None:
            types = checked_types(environment, gpu_types, snapshot)
        tests = await self.tests.queue_tests(environment, number, types, asker)
        if number is not None:
            state = EnvironmentState.TESTING
            await self._store.versions.change(environment.name, number, state=state, message="")
        self._wake.set()
        return tests

    async def cancel_build(self, id: int, by: str) -> Build:
        """Cancel a build. Raises NotFound, Conflict if it is over, SlurmUnavailable."""
        build = await self.builds.cancel(id, by)
        self._wake.set()
        return build

    async def cancel_test(self, id: int, by: str) -> EnvironmentTest:
        """Cancel a test, which then gives no verdict. Raises as ``cancel_build`` does."""
        test = await self.tests.cancel(id, by)
        self._wake.set()
        return test

    async def retry(self, id: int, by: str) -> Build:
        """Repeat a failed or cancelled build for those who had asked for it; downloads are reused.
        Raises NotFound, Conflict if it is not over or has passed."""
        build = await self.builds.retry(id, by)
        self._wake.set()
        return build

    async def log_text(self, kind: WorkKind, id: int, offset: int = 0) -> tuple[str, int]:
        """Return plain text of the log of a build or test from byte ``offset`` on, and the next
        offset. About 64 KiB at once. Raises NotFound."""
        table = self._store.builds if kind == "build" else self._store.tests
        row = await table.get(id)
        path = Path(self.images.log_directory) / row.log
        return await asyncio.to_thread(job_monitor.log_text, path, row.nonce, offset)

    async def remove_logs(self, names: Iterable[str]) -> None:
        """Remove logs of builds and tests that are over, by their names."""
        gone = list(names)
        await asyncio.to_thread(work_logs.remove_logs, self.images.log_directory, gone)

    async def _sweep_logs(self, live: Iterable[Build | EnvironmentTest]) -> None:
        """Remove old logs, once an hour, except those of ``live`` builds and tests."""
        if self._swept_at is not None and time.monotonic() - self._swept_at < _SWEEP:
            return
        self._swept_at = time.monotonic()
        keep = {row.log for row in live}
        directory = self.images.log_directory
        await asyncio.to_thread(work_logs.sweep_logs, directory, self.log_days, keep)

    # -- the loop ------------------------------------------------------------------------------

    async def run(self) -> None:
        """Submit, follow and judge jobs for ever. Start it once."""
        await Periodic(
            "The build and test scheduler",
            self.turn,
            # It is busy, or the database or Slurm is away: nothing is lost.
            lambda busy: self.interval if busy else max(self.interval, _REST),
            self.log,
            failed="Builds and tests are paused",
            wake=self._wake,
            gather=0.05,
        ).run()

    async def turn(self) -> bool:
        """Advance builds and tests; return True if anything is under way. Raises PortalError."""
        await self._catalog.load()
        builds, tests = await self._store.builds.live(), await self._store.tests.live()
        going = await self._store.versions.in_state(
            EnvironmentState.BUILDING, EnvironmentState.TESTING
        )
        if not builds:
            await self._pulling.sweep()
        await self._sweep_logs([*builds, *tests])
        candidates = self._auto_tests.candidates() if self.test_by_itself else []
        failed = await self._auto_tests.failed_versions() if self.test_by_itself else []
        if not (builds or tests or going or candidates or failed):
            return False
        snapshot = await self._cluster.snapshot()
        if snapshot.error:
            return True
        await self._auto_tests.queue_tests(candidates, snapshot)
        await self._auto_tests.retry(failed, snapshot)
        await self.builds.turn(builds, snapshot)
        await self.tests.turn(await self._store.tests.live(), snapshot)
        for version in going:
            await self._settle(version)
        return bool(builds or going or await self._store.tests.live())

    async def _settle(self, version: EnvironmentVersion) -> None:
        """Bring a version that was built or tested to its next state, once that is known."""
        if version.state is EnvironmentState.BUILDING:
            await self._settle_build(version)
        else:
            await self._settle_tests(version)

    async def _settle_build(self, version: EnvironmentVersion) -> None:
        build = await self.builds.outcome(version)
        if build is None:
            return
        if build.state is not WorkState.PASSED:
            await self._change(version, EnvironmentState.FAILED, build.message)
            return
        try:
            environment = with_image(version.environment, build)
        except ValidationError as error:
            message = (
                f"The result of the build is not a valid environment: {error.errors()[0]['msg']}."
            )
            await self._change(version, EnvironmentState.FAILED, message)
            return
        version = await self._store.versions.change(
            version.name,
            version.number,
            state=EnvironmentState.TESTING,
            message="",
            environment=environment,
        )
        await self._begin_tests(version, build.askers[0])

    async def _begin_tests(self, version: EnvironmentVersion, asker: str) -> None:
        """Add the tests of a version's image that have no verdict yet."""
        environment, snapshot = version.environment, await self._cluster.snapshot()
        types = types_to_test(environment, snapshot)
        known = (await self._store.tests.outcomes()).get(environment.fingerprint, {})
        mark = await self._auto_tests.mark(environment)
        passed = {name: verdict for name, verdict in known.items() if verdict.passed}
        missing = untested(environment, types, passed, mark, self.images)
        await self.tests.queue_tests(environment, version.number, missing, asker)
        self._wake.set()

    async def _settle_tests(self, version: EnvironmentVersion) -> None:
        newest = await self._store.tests.newest(version.environment.fingerprint)
        if not newest:
            await self._begin_tests(version, version.author)
            return
        if any(test.state in LIVE for test in newest.values()):
            return
        base = newest.get("")
        if base is None:
            await self._begin_tests(version, version.author)
        elif base.state is WorkState.PASSED:
            failed = [
                f"{name}: {test.message}"
                for name, test in newest.items()
                if name and test.state is not WorkState.PASSED
            ]
            message = f"Not offered on {'; '.join(failed)}" if failed else ""
            await self._change(version, EnvironmentState.READY, message)
        elif base.state is WorkState.FAILED:
            await self._change(version, EnvironmentState.FAILED, base.message)
        else:
            message = f"The test could not run: {base.message} Test it again."
            await self._change(version, EnvironmentState.FAILED, message)

    async def _change(
        self, version: EnvironmentVersion, state: EnvironmentState, message: str
    ) -> None:
        try:
            await self._store.versions.change(
                version.name, version.number, state=state, message=message[:2000]
            )
        except NotFound:  # a draft that was removed meanwhile
            return
        self.log.info("Version %d of %s is %s", version.number, version.name, state)
