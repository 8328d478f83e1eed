"""Smoke tests of environments: a queue, jobs in Slurm, verdicts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from portal.errors import InvalidRequest, NotFound, SlurmRefused, SlurmUnavailable
from portal.images.settings import Images
from portal.models.catalog.catalog import EnvironmentTest, Verdict
from portal.models.catalog.environment import Environment
from portal.models.catalog.image_job import LIVE, TestResult, Work, WorkState
from portal.models.cluster.cluster import ClusterSnapshot
from portal.models.session.resources import Resources
from portal.store import Store

from ..availability import UNTYPED, Mark, changed, mark_of
from ..files import EnvironmentCatalog
from .failure_reason import End, end_of_refusal, limit_changed
from .job_monitor import JobStatus
from .settings import BuildSettings
from .submitting import Submitter, new_nonce
from .work_queue import WorkQueue


class TestQueue(WorkQueue[EnvironmentTest]):
    """Queue of one scheduler's tests."""

    __test__ = False  # not a test of pytest's
    work = Work.TEST

    def __init__(
        self, settings: BuildSettings, store: Store, catalog: EnvironmentCatalog, jobs: Submitter
    ) -> None:
        super().__init__(settings, store, jobs, store.tests)
        self._catalog = catalog
        self._environments: dict[int, Environment] = {}  # of tests that this process added
        self._marks: dict[int, Mark | None] = {}

    async def queue_tests(
        self,
        environment: Environment,
        number: int | None,
        gpu_types: Sequence[str],
        asker: str,
    ) -> list[EnvironmentTest]:
        """Add a test for each of ``gpu_types`` ("": without GPUs); live tests of the same software
        are joined."""
        fingerprint, tests = environment.fingerprint, []
        async with self._one:
            live = {
                test.gpu_type: test
                for test in await self._store.tests.live()
                if test.fingerprint == fingerprint
            }
            for gpu_type in dict.fromkeys(gpu_types):
                if gpu_type in live:
                    tests.append(live[gpu_type])
                    continue
                test = await self._store.tests.add_test(
                    fingerprint=fingerprint,
                    name=environment.name,
                    number=number,
                    gpu_type=gpu_type,
                    asker=asker,
                    nonce=new_nonce(),
                    log=await self._jobs.new_log(Work.TEST, _user_of(environment)),
                    at=time.time(),
                )
                self._jobs.is_new(Work.TEST, test.id)
                self._environments[test.id] = environment
                tests.append(test)
        return tests

    async def turn(self, live: Sequence[EnvironmentTest], snapshot: ClusterSnapshot) -> None:
        """Update running tests, then submit queued ones while there is room."""
        going = []
        for test in live:
            if not test.job_id:
                going.append(test)
            elif (now := await self._looked(test, snapshot)).state in LIVE:
                going.append(now)
        running = [test for test in going if test.job_id]
        on_gpus = sum(bool(test.gpu_type) for test in running)
        free = self._settings.max_tests - len(running)
        for test in going:
            if free <= 0:
                return
            if test.job_id or (test.gpu_type and on_gpus >= self._settings.max_gpu_tests):
                continue
            if await self._submitted(test, snapshot):
                free -= 1
                on_gpus += bool(test.gpu_type)

    async def _submitted(self, test: EnvironmentTest, snapshot: ClusterSnapshot) -> bool:
        """Submit a waiting test to Slurm; return True if that succeeds."""
        environment = await self._environment(test)
        if environment is None:
            gone = "The environment was changed or removed before the test started."
            await self._over(test, End(WorkState.CANCELLED, gone))
            return False
        if test.gpu_type and not usable_nodes(snapshot, test.gpu_type):
            away = f"No node with {test.gpu_type} GPUs is available now."
            await self._over(test, End(WorkState.UNKNOWN, away))
            return False
        user = _user_of(environment)
        self._marks[test.id] = await asyncio.to_thread(mark_of, environment.image or "")
        job = self._jobs.job(
            Work.TEST,
            test.nonce,
            environment,
            gpu_type=test.gpu_type,
            gpus=1 if test.gpu_type else 0,
            gpu_vendor=self._jobs.gpus.vendor_for(test.gpu_type).name,
        )
        try:
            resources = await self._jobs.placed(self._resources(test, user), snapshot, user)
            job_id = await self._jobs.submit(Work.TEST, test, job, resources, user)
        except (SlurmRefused, ValidationError) as error:
            await self._over(test, end_of_refusal(error, Work.TEST))
            return False
        except SlurmUnavailable as error:
            await self._store.tests.change(test.id, message=error.message)
            return False
        save = self._store.tests.change(test.id, job_id=job_id, message="")
        await self._jobs.saved(job_id, user, save)
        return True

    def _resources(self, test: EnvironmentTest, user: str) -> Resources:
        """Return one GPU of the type, or none; users' own tests are charged to them."""
        gpu_type = test.gpu_type
        asked = self._jobs.images.resources_of_test(gpu_type)
        update: dict[str, Any] = {}
        if gpu_type == UNTYPED:
            update["gpu_type"] = None
        if user:
            update |= {"account": None, "qos": None, "partition": None}
        return asked.model_copy(update=update)

    async def _over(
        self, test: EnvironmentTest, end: End, status: JobStatus | None = None
    ) -> EnvironmentTest:
        """Record how a test ended, and the verdict on its environment."""
        result = None
        if status is not None and status.result is not None:
            try:
                result = TestResult.model_validate(status.result)
            except ValidationError:
                end = End(WorkState.UNKNOWN, "The job's result cannot be read.")
        now = time.time()
        if end.state in (WorkState.PASSED, WorkState.FAILED):
            await self._store.tests.save_verdict(
                Verdict(
                    fingerprint=test.fingerprint,
                    gpu_type=test.gpu_type,
                    passed=end.state is WorkState.PASSED,
                    message=end.message,
                    at=now,
                    mark=await self._mark(test, result),
                    facts=result.facts.model_dump(mode="json") if result else {},
                )
            )
            self._catalog.offering.forget()
        ended = await self._store.tests.change(
            test.id,
            state=end.state,
            step="",
            message=end.message,
            started_at=status.started_at if status else test.started_at,
            ended_at=now,
            result=result.model_dump(mode="json") if result else None,
        )
        self._jobs.forget(Work.TEST, test.id)
        self._environments.pop(test.id, None)
        self._marks.pop(test.id, None)
        return ended

    async def _mark(self, test: EnvironmentTest, result: TestResult | None) -> Mark | None:
        """Return the tested image file's mark: as the job reported it, else as it was before."""
        if result is not None and result.mark is not None:
            return result.mark
        if test.id in self._marks:
            return self._marks[test.id]
        environment = await self._environment(test)
        return await asyncio.to_thread(mark_of, environment.image or "") if environment else None

    async def _environment(self, test: EnvironmentTest) -> Environment | None:
        """Return the environment of a test; None if it was changed or removed since."""
        environment: Environment | None = self._environments.get(test.id)
        if environment is None and test.number is not None:
            try:
                environment = (await self._store.versions.get(test.name, test.number)).environment
            except NotFound:
                environment = None
        elif environment is None:
            environment = self._catalog.environments.get(test.name)
        return (
            environment
            if environment is not None and environment.fingerprint == test.fingerprint
            else None
        )

    async def _user(self, test: EnvironmentTest) -> str:
        environment = await self._environment(test)
        return _user_of(environment) if environment else ""


def _user_of(environment: Environment) -> str:
    """Return the account its tests run as ("": the service's, which never runs private images)."""
    return environment.owner if environment.private else ""


def gpu_types_of(snapshot: ClusterSnapshot) -> list[str]:
    """Return the GPU types of the cluster, sorted."""
    nodes = snapshot.nodes.values()
    return sorted({pool.type for node in nodes for pool in (*node.gpus, *node.shares)})


def usable_nodes(snapshot: ClusterSnapshot, gpu_type: str) -> bool:
    """Return True if a job could run on such a GPU now or soon."""
    return any(node.usable and node.pools_of(gpu_type) for node in snapshot.nodes.values())


def types_to_test(environment: Environment, snapshot: ClusterSnapshot) -> list[str]:
    """Return what an environment is offered for: "" and the GPU types of the cluster that it
    names, or all of them if it names none."""
    if environment.max_gpus == 0:
        return [""]
    available = gpu_types_of(snapshot)
    return [
        "",
        *(gpu_type for gpu_type in available if gpu_type in (environment.gpu_types or available)),
    ]


def checked_types(
    environment: Environment, asked: Sequence[str], snapshot: ClusterSnapshot
) -> list[str]:
    """Return ``asked`` with "" first. Raises InvalidRequest for GPU types that are not offered."""
    available = types_to_test(environment, snapshot)[1:]
    for gpu_type in asked:
        if gpu_type and gpu_type not in available:
            raise InvalidRequest(
                f"'{environment.title}' cannot be tested on '{gpu_type[:60]}' GPUs. Available "
                f"and allowed: {', '.join(available) or 'none'}.",
                "gpu_types",
            )
    return list(dict.fromkeys(["", *asked]))


def untested(
    environment: Environment,
    types: Sequence[str],
    known: Mapping[str, Verdict],
    mark: Mark | None,
    images: Images,
) -> list[str]:
    """Return those of ``types`` that no test has judged, or only with another image file, or that
    failed at a limit of the site that has been changed since (``images``)."""
    return [
        gpu_type
        for gpu_type in types
        if (verdict := known.get(gpu_type)) is None
        or changed(verdict, mark)
        or limit_changed(verdict.message, images.resources_of_test(gpu_type))
    ]
