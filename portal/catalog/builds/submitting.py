"""Submission of image jobs to Slurm: once each, adopted after a restart, cancelled."""

from __future__ import annotations

import asyncio
import os
import pwd
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from portal.errors import ConfigurationError, SlurmUnavailable, StoreUnavailable
from portal.gpus.settings import Gpus
from portal.images.settings import Images
from portal.launch.image_job import image_job_command
from portal.launch.partitions import choose_partition
from portal.launch.programs import programs_of
from portal.models.catalog.catalog import Build, EnvironmentTest
from portal.models.catalog.environment import Environment
from portal.models.catalog.image_job import ImageJob, Work
from portal.models.cluster.cluster import ClusterSnapshot
from portal.models.person import Person
from portal.models.session.resources import Resources
from portal.slurm.jobs.job_log import make_log

from .job_monitor import Follower

if TYPE_CHECKING:
    from portal.slurm import Cluster

Row = Build | EnvironmentTest


def new_nonce() -> str:
    """Return an unguessable nonce, which marks a job's own lines in its log."""
    return secrets.token_hex(16)


class Submitter:
    """Submitter of the scheduler's jobs. ``log`` gets what an admin should know."""

    def __init__(
        self, cluster: Cluster, images: Images, log: Any, gpus: Gpus | None = None
    ) -> None:
        self.cluster, self.images, self.log = cluster, images, log
        self.gpus = gpus or Gpus()
        self.followers: dict[tuple[Work, int], Follower] = {}
        self._mine: set[tuple[Work, int]] = set()  # added by this process

    @property
    def account(self) -> str:
        """Account that builds and tests of the catalog run as."""
        return self.images.service_account or _own_name()

    async def new_log(self, work: Work, user: str = "") -> str:
        """Create a log for a job of ``user`` ("": the service's) and return its name. Raises
        ConfigurationError."""
        try:
            return await asyncio.to_thread(
                make_log, self.images.log_directory, str(work), user or self.account
            )
        except OSError as error:
            raise ConfigurationError(
                f"The log of the {work} cannot be created in {self.images.log_directory} "
                f"(c.Images.log_directory): {error.strerror}."
            ) from None

    def is_new(self, work: Work, id: int) -> None:
        """Note that this process added the row, so that no job of it can exist yet."""
        self._mine.add((work, id))

    def follower(self, work: Work, row: Row) -> Follower:
        """Return the follower of the job of ``row``."""
        key = (work, row.id)
        if key not in self.followers:
            path = Path(self.images.log_directory) / row.log
            self.followers[key] = Follower(path, row.nonce, work)
        return self.followers[key]

    def forget(self, work: Work, id: int) -> None:
        """Forget a row whose job is over."""
        self.followers.pop((work, id), None)
        self._mine.discard((work, id))

    def job(self, work: Work, nonce: str, environment: Environment, **more: Any) -> ImageJob:
        """Build the ImageJob, with this site's settings."""
        images = self.images
        known = {
            "apptainer": images.apptainer,
            "directory": images.directory,
            "wheels": images.wheels,
            "sign_key": images.sign_key,
            "verify": images.verify,
            "keyring": images.keyring,
            "scratch": images.scratch,
            "beside": images.beside,
            "simulated_gpus": images.simulated_gpus,
            "guards": tuple(kind.guard() for kind in programs_of(environment).values()),
        }
        settings = {name: known[name] for name in known if name in ImageJob.model_fields}
        return ImageJob(work=work, nonce=nonce, environment=environment, **{**settings, **more})

    async def submit(
        self, work: Work, row: Row, job: ImageJob, resources: Resources, user: str = ""
    ) -> str:
        """Submit the job of ``row`` as ``user`` ("": the service's) and return its id.

        A job that an earlier process submitted but could not record is adopted instead. Raises
        SlurmRefused, SlurmUnavailable.
        """
        user, name = user or self.account, job_name(work, row.id)
        if (work, row.id) not in self._mine:
            job_id = await self._taken_up(name, user, row.log)
            if job_id:
                self.log.warning("Adopted job %s as %s", job_id, name)
                return job_id
        argv, env = image_job_command(
            job,
            resources,
            name=name,
            output=f"{self.images.log_directory}/{row.log}",
            directory="/tmp",  # noqa: S108  every node and account has it; nothing is put there
            python=self.images.python,
            comment=f"portal:{work}:{row.id}",
        )
        return await self.cluster.submit(argv, env, user)

    async def drop(self, job_id: str, user: str = "") -> None:
        """Cancel a job; one that is over is no error. Raises SlurmRefused, SlurmUnavailable."""
        await self.cluster.cancel(job_id, user or self.account)

    async def saved(self, job_id: str, user: str, save: Any) -> Any:
        """Await ``save``, which records a job's id. If the database is away, the job is cancelled,
        since nothing would know of it. Raises StoreUnavailable."""
        try:
            return await save
        except StoreUnavailable:
            await self.drop(job_id, user)
            raise

    async def placed(
        self, resources: Resources, snapshot: ClusterSnapshot, user: str = ""
    ) -> Resources:
        """Return ``resources`` with a partition that has such nodes, if none is set."""
        if resources.partition is not None:
            return resources
        name = user or self.account
        try:
            associations = await self.cluster.associations(name)
        except SlurmUnavailable:
            associations = None
        if associations is not None and resources.account:
            charged = resources.account
            associations = tuple(row for row in associations if row.account == charged)
        chosen = choose_partition(resources, Person(name=name), snapshot, associations or None)
        return resources.model_copy(update={"partition": chosen})

    async def _taken_up(self, name: str, user: str, log: str) -> str:
        """Return the id of the job with this name and this log; "" if there is none.

        A new database counts ids anew, so the name alone could be of another job; names of logs
        are unique. The time of submission proves nothing, since clocks may be set.
        """
        snapshot = await self.cluster.snapshot(time.monotonic())
        if snapshot.error:
            raise SlurmUnavailable(snapshot.error)
        for job in snapshot.jobs.values():
            if (job.name, job.user) == (name, user) and Path(job.stdout).name == log:
                return job.id
        return ""


def job_name(work: Work, id: int) -> str:
    """Return the job's name, as squeue shows it."""
    return f"portal-{work}-{id}"


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return ""
