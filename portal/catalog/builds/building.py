"""Image builds: equal requests share one build, and existing images are not built again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from portal.errors import Conflict, InvalidRequest, PortalError, SlurmRefused, SlurmUnavailable
from portal.images.jobs.definition import build_key, image_path, path_digest, recipe_key
from portal.images.outcome import WorkFailed
from portal.models.catalog.catalog import Build, EnvironmentVersion
from portal.models.catalog.environment import Environment, EnvironmentKind, EnvironmentState
from portal.models.catalog.image import Source, SourceKind, parse_source
from portal.models.catalog.image_job import LIVE, BuildResult, Work, WorkState
from portal.models.cluster.cluster import ClusterSnapshot
from portal.store import Store

from .failure_reason import End, end_of_refusal
from .job_monitor import JobStatus
from .pulling import Pulling
from .settings import BuildSettings
from .submitting import Submitter, new_nonce
from .work_queue import WorkQueue


class _Wanted(NamedTuple):
    """Image to be built; ``key`` names the result."""

    source: Source
    digest: str
    key: str
    image: Path


class BuildQueue(WorkQueue[Build]):
    """Queue of one scheduler's builds."""

    work = Work.BUILD
    shown = (*WorkQueue.shown, "share")

    def __init__(
        self, settings: BuildSettings, store: Store, jobs: Submitter, pulling: Pulling
    ) -> None:
        super().__init__(settings, store, jobs, store.builds)
        self._pulling = pulling

    async def queue_build(self, version: EnvironmentVersion, asker: str) -> Build:
        """See BuildScheduler.build."""
        _demand_idle(version)
        wanted = await self._wanted(version.environment)
        async with self._one:
            _demand_idle(await self._store.versions.get(version.name, version.number))
            build = await self._shared(wanted, asker) or await self._new(wanted, asker)
            await self._waits(version, build)
        return build

    async def retry(self, id: int, by: str) -> Build:
        """See BuildScheduler.retry."""
        old = await self._store.builds.get(id)
        if old.state in LIVE:
            raise Conflict(f"Build {id} has not finished yet.")
        if old.state is WorkState.PASSED:
            raise Conflict(f"Build {id} has passed and cannot be repeated.")
        failed = await self._store.versions.in_state(EnvironmentState.FAILED)
        waiting = [version for version in failed if version.build_id == id]
        if not waiting:
            raise Conflict(
                f"No version is waiting for build {id}. Start a new build of the version."
            )
        async with self._one:
            build = await self._store.builds.with_key(old.key, *LIVE)
            if build is None:
                build = await self._row(old.key, old.source, old.digest, old.askers[0])
            for asker in dict.fromkeys([*old.askers, by]):
                build = await self._joined(build, asker)
            for version in waiting:
                await self._waits(version, build)
        return build

    async def _waits(self, version: EnvironmentVersion, build: Build) -> None:
        """Note that ``version`` waits for ``build``."""
        await self._store.versions.change(
            version.name,
            version.number,
            state=EnvironmentState.BUILDING,
            message="",
            build_id=build.id,
        )

    async def turn(self, live: Sequence[Build], snapshot: ClusterSnapshot) -> None:
        """Update running builds, then submit queued ones while there is room."""
        running, queued = 0, []
        for build in live:
            if not build.job_id:
                queued.append(build)
            elif (await self._looked(build, snapshot)).state in LIVE:
                running += 1
        for build in queued[: max(0, self._settings.max_builds - running)]:
            await self._submitted(build, snapshot)

    async def outcome(self, version: EnvironmentVersion) -> Build | None:
        """Return the build that a version in BUILDING waited for; None until it is over."""
        if version.build_id is None:
            return None
        build = await self._store.builds.get(version.build_id)
        return None if build.state in LIVE else build

    # -- what is wanted ------------------------------------------------------------------------

    async def _wanted(self, environment: Environment) -> _Wanted:
        if environment.kind is not EnvironmentKind.CONTAINER or not environment.source:
            raise InvalidRequest(
                f"'{environment.title}' has no 'source' to build an image from.", "source"
            )
        try:
            source = parse_source(environment.source)
        except ValueError as error:
            raise InvalidRequest(str(error), "source") from None
        if source.kind is SourceKind.OCI:
            digest = await self._pulling.digest(source)
            source = source.pinned(digest)
        else:
            digest = await asyncio.to_thread(_digest_of, source)
        images = self._jobs.images
        recipe = await asyncio.to_thread(recipe_key, images.wheels)
        image = image_path(images.directory, digest, recipe)
        return _Wanted(source, digest, build_key(digest, recipe), image)

    async def _shared(self, wanted: _Wanted, asker: str) -> Build | None:
        """Join a live build of the same key, or a passed one whose image exists; else None."""
        build = await self._store.builds.with_key(wanted.key, *LIVE)
        if build is None:
            build = await self._store.builds.with_key(wanted.key, WorkState.PASSED)
            has_result = build is not None and build.result is not None
            if not has_result or not await asyncio.to_thread(wanted.image.is_file):
                return None
        assert build is not None
        return await self._joined(build, asker)

    async def _joined(self, build: Build, asker: str) -> Build:
        if asker in build.askers:
            return build
        return await self._store.builds.change(build.id, askers=[*build.askers, asker])

    async def _new(self, wanted: _Wanted, asker: str) -> Build:
        return await self._row(wanted.key, str(wanted.source), wanted.digest, asker)

    async def _row(self, key: str, source: str, digest: str, asker: str) -> Build:
        build = await self._store.builds.add_build(
            key=key,
            source=source,
            digest=digest,
            asker=asker,
            nonce=new_nonce(),
            log=await self._jobs.new_log(Work.BUILD),
            at=time.time(),
        )
        self._jobs.is_new(Work.BUILD, build.id)
        return build

    # -- the jobs ------------------------------------------------------------------------------

    async def _submitted(self, build: Build, snapshot: ClusterSnapshot) -> None:
        """Submit a waiting build to Slurm."""
        versions = await self._store.versions.in_state(EnvironmentState.BUILDING)
        environment = next(
            (version.environment for version in versions if version.build_id == build.id), None
        )
        if environment is None:
            if self._ages.age_of(build.id, build.asked_at) > self._settings.interval + 5:
                gone = "No version is waiting for this build."
                await self._over(build, End(WorkState.CANCELLED, gone))
            return
        images = self._jobs.images
        try:
            more = await self._pulling.prepare(build)
            job = self._jobs.job(
                Work.BUILD,
                build.nonce,
                environment,
                source=build.source,
                digest=build.digest,
                target=str(Path(images.directory) / f"{build.key}.sif"),
                **more,
            )
            resources = await self._jobs.placed(images.build_resources(), snapshot)
            job_id = await self._jobs.submit(Work.BUILD, build, job, resources)
        except SlurmUnavailable as error:
            await self._store.builds.change(build.id, message=error.message)
            return
        except (SlurmRefused, ValidationError) as error:
            await self._over(build, end_of_refusal(error, Work.BUILD))
            return
        except PortalError as error:
            await self._over(build, End(WorkState.FAILED, error.message))
            return
        save = self._store.builds.change(build.id, job_id=job_id, message="")
        await self._jobs.saved(job_id, "", save)

    async def _over(self, build: Build, end: End, status: JobStatus | None = None) -> Build:
        """Record how a build ended. the scheduler updates the versions."""
        result = None
        if end.state is WorkState.PASSED and status is not None:
            try:
                result = BuildResult.model_validate(status.result)
            except ValidationError:
                end = End(WorkState.FAILED, "The job's result cannot be read.")
        await self._pulling.clear(build)
        ended = await self._store.builds.change(
            build.id,
            state=end.state,
            # The step at which it ended without a result, for its page.
            step="" if result else (status.step if status else build.step),
            share=None,
            message=end.message,
            started_at=status.started_at if status else build.started_at,
            ended_at=time.time(),
            result=result.model_dump(mode="json") if result else None,
        )
        self._jobs.forget(Work.BUILD, build.id)
        return ended


def with_image(environment: Environment, build: Build) -> Environment:
    """Return ``environment`` with the results of its build. Raises pydantic's ValidationError."""
    result = BuildResult.model_validate(build.result)
    fields = {
        "image": result.image,
        "digest": result.digest,
        "server": result.server,
        "python": result.python,
        "kernels": result.kernels,
    }
    known = {name: getattr(environment, name) for name in environment.model_fields_set}
    return Environment.model_validate({**known, **fields})


def _demand_idle(version: EnvironmentVersion) -> None:
    if version.state in (EnvironmentState.BUILDING, EnvironmentState.TESTING):
        raise Conflict(f"Version {version.number} of '{version.name}' is already {version.state}.")


def _digest_of(source: Source) -> str:
    """Return the digest of a SIF or definition file. Blocks. Raises InvalidRequest."""
    try:
        return path_digest(source)
    except WorkFailed as error:
        raise InvalidRequest(
            f"{error.message} The portal's service account needs read access.", "source"
        ) from None
