"""A build scheduler for tests, with a real database, real logs and jobs controlled by the test."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clusters import node, pool, snapshot

from portal.catalog import EnvironmentCatalog
from portal.catalog.builds.scheduler import BuildScheduler
from portal.catalog.versions.user_environments import OwnDraft, UserEnvironments
from portal.errors import PortalError
from portal.images.log_protocol import MARK
from portal.images.settings import Images
from portal.launch.image_job import VARIABLE
from portal.models.catalog.catalog import Build, EnvironmentTest, EnvironmentVersion, Origin
from portal.models.catalog.environment import Environment, EnvironmentKind
from portal.models.catalog.image import ResolvedImage, Source
from portal.models.catalog.image_job import ImageJob, Work
from portal.models.cluster.cluster import ClusterSnapshot, Job, JobState, Partition
from portal.models.person import Person
from portal.slurm import Cluster
from portal.store import Store

DIGEST = f"sha256:{'a' * 64}"
NODES = (node("gpu01", pool(4)), node("gpu02", pool(2, type="t4")), node("cpu01"))
SOURCE = "docker://nvcr.io/nvidia/pytorch:25.10-py3"
ADA = Person(name="ada")
DRAFT = OwnDraft(title="My Torch", kind=EnvironmentKind.VENV, path="/opt/torch")
OWN = "ada.my-torch"  # the name of that draft of hers
_OF_IMAGES = {"test_resources"}  # settings of Images
FACTS = {"versions": {"torch": "2.9"}, "packages": ["torch==2.9"]}


class WrittenCluster(Cluster):
    """Fake watcher that accepts jobs, whose states the test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: dict[str, Job] = {}
        self.told: dict[str, tuple[ImageJob, list[str], str | None]] = {}
        self.gone: dict[str, Job] = {}  # ended and no longer in the snapshot
        self.nodes = NODES
        self.partitions: dict[str, Partition] | None = None  # None: those of the fake snapshot
        self.error: PortalError | None = None  # of every question
        self.refusal: PortalError | None = None  # of submissions alone

    async def submit(
        self,
        argv: Sequence[str],
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        timeout: float | None = None,
    ) -> str:
        if self.error is not None or self.refusal is not None:
            raise self.error or self.refusal  # type: ignore[misc]
        id_ = str(100 + len(self.told))
        args = list(argv)
        self.told[id_] = ImageJob.model_validate_json((env or {})[VARIABLE]), args, user
        name = next(arg for arg in args if arg.startswith("--job-name="))
        self.jobs[id_] = Job(
            id=id_,
            name=name.partition("=")[2],
            user=user or "",
            state=JobState.PENDING,
            reason="Resources",
            submit_time=time.time(),
            stdout=next(opt for opt in args if opt.startswith("--output=")).partition("=")[2],
        )
        return id_

    async def cancel(self, job_id: str, user: str | None = None, *, gently: bool = False) -> bool:
        self.end(job_id, JobState.CANCELLED)
        return True

    async def snapshot(self, *_: Any, **__: Any) -> ClusterSnapshot:
        if self.error is not None:
            raise self.error
        told = snapshot(*self.nodes, *self.jobs.values(), at=time.time())
        if self.partitions is None:
            return told
        return told.model_copy(update={"partitions": self.partitions})

    async def ended_job(self, job_id: str) -> Job | None:
        job = self.gone.get(job_id) or self.jobs.get(job_id)
        if job is None:
            return Job(id=job_id, state=JobState.UNKNOWN, reason="Forgotten")
        return job if job.state.ended else None

    async def associations(self, user: str) -> None:
        return None

    def end(self, job_id: str, state: JobState, **more: Any) -> None:
        """End a job in ``state``, as Slurm would report it."""
        self.jobs[job_id] = self.jobs[job_id].model_copy(update={"state": state, **more})

    def start(self, job_id: str) -> None:
        """Make a job run."""
        more = {"state": JobState.RUNNING, "start_time": time.time(), "nodes": ("cpu01",)}
        self.jobs[job_id] = self.jobs[job_id].model_copy(update=more)


class Site:
    """BuildScheduler with its dependencies, in ``place``."""

    def __init__(self, place: Path, store: Store, **settings: Any) -> None:
        self.place, self.store, self.settings = place, store, settings
        for folder in ("images", "logs", "wheels", "files", "kept"):
            (place / folder).mkdir(exist_ok=True)
        (place / "wheels/portal_session-1-py3-none-any.whl").write_bytes(b"wheel")
        self.cluster = WrittenCluster()
        self.catalog = EnvironmentCatalog(
            store=store,
            directory=str(place / "files"),
            kept_directory=str(place / "kept"),
            verdicts_age=0.1,
            timeout=60,
        )
        self.catalog.offering.known.patience = 60
        self.resolved: list[Source] = []
        self.build_scheduler = self.service()

    def service(self) -> BuildScheduler:
        """Create a new scheduler on the same database, as after a restart of the service."""
        images = Images(
            directory=str(self.place / "images"),
            log_directory=str(self.place / "logs"),
            wheels=str(self.place / "wheels"),
            **{name: self.settings[name] for name in _OF_IMAGES if name in self.settings},
        )
        own = {name: self.settings[name] for name in self.settings.keys() - _OF_IMAGES}
        build_scheduler = BuildScheduler(
            self.cluster, self.store, self.catalog, images=images, **own
        )
        build_scheduler.registries.resolve = self._resolve  # type: ignore[method-assign]
        self.build_scheduler = build_scheduler
        return build_scheduler

    async def _resolve(self, source: Source, kept: Any) -> ResolvedImage:
        self.resolved.append(source)
        return ResolvedImage(digest=DIGEST, architecture="amd64")

    async def draft(self, name: str = "torch", **more: Any) -> EnvironmentVersion:
        """Add a version that can be built."""
        values = {"name": name, "title": name.title(), "kind": "container", "source": SOURCE}
        environment = Environment.model_validate({**values, **more})
        return await self.store.versions.add_version(
            environment, author="grace", at=time.time(), origin=Origin.PAGE
        )

    async def own(self) -> UserEnvironments:
        """Register DRAFT as ada, and submit its three tests."""
        self.catalog.rules.own_environments = "on"
        own = UserEnvironments(self.catalog, self.store, self.build_scheduler)
        await own.register(DRAFT, ADA)
        await self.turn()
        return own

    async def version(self, name: str = "torch", number: int = 1) -> EnvironmentVersion:
        return await self.store.versions.get(name, number)

    async def turn(self) -> None:
        await self.build_scheduler.turn()

    def write(self, job_id: str, text: str) -> None:
        """Append text to the log of a job."""
        args = self.cluster.told[job_id][1]
        path = next(arg for arg in args if arg.startswith("--output=")).partition("=")[2]
        with Path(path).open("a") as log:
            log.write(text)

    def say(self, job_id: str, **event: Any) -> None:
        """Write an event of the job itself into its log."""
        nonce = self.cluster.told[job_id][0].nonce
        message = {"at": time.time(), "step": "done", **event}
        self.write(job_id, f"{MARK} {nonce} {json.dumps(message)}\n")

    def passes(self, job_id: str) -> None:
        """Have the job report success, as a real one would."""
        job = self.cluster.told[job_id][0]
        if job.work is Work.BUILD:
            Path(job.target).write_bytes(b"sif")
            self.say(job_id, result=built(job.target))
        else:
            self.say(job_id, result=tested(job))

    def ids(self, work: Work | None = None) -> list[str]:
        """Return the ids of submitted jobs, in order."""
        return [id_ for id_, (job, _, _) in self.cluster.told.items() if work in (None, job.work)]

    def option(self, job_id: str, name: str) -> str | None:
        """Return the value of an option that was passed to sbatch; None if it was not."""
        matches = (re.fullmatch(f"--{name}=(.*)", arg) for arg in self.cluster.told[job_id][1])
        return next((match[1] for match in matches if match), None)

    async def build(self, id_: int) -> Build:
        return await self.store.builds.get(id_)

    async def tests(self, name: str = "torch") -> dict[str, EnvironmentTest]:
        """Return the newest test of each GPU type."""
        items, _ = await self.store.tests.of_environment(name)
        return {test.gpu_type: test for test in reversed(items)}


def built(image: str) -> dict[str, Any]:
    return {
        "image": image,
        "digest": DIGEST,
        "size": 3,
        "sha256": "b" * 64,
        "server": "inside",
        "python": "/opt/data-scientist-portal/bin/python",
        "kernels": [{"name": "python3", "title": "Python 3", "language": "python"}],
        "facts": FACTS,
    }


def tested(job: ImageJob) -> dict[str, Any]:
    return {
        "server": "inside",
        "server_seconds": 3.5,
        "kernels": [],
        "gpu_type": job.gpu_type,
        "gpus": job.gpus,
        "facts": FACTS,
    }
