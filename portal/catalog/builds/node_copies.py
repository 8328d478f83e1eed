"""Copies of images on the nodes' own disks (c.Images.node_cache), made by a job on each node."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from portal.errors import ConfigurationError, InvalidRequest, SlurmRefused, SlurmUnavailable
from portal.images.settings import Images
from portal.launch.container import node_copy
from portal.launch.image_job import image_job_command
from portal.models.catalog.environment import Environment
from portal.models.catalog.image_job import Work, WorkState
from portal.models.cluster.cluster import ClusterSnapshot
from portal.models.session.resources import Resources

from .failure_reason import End
from .job_monitor import Follower
from .submitting import Submitter, new_nonce

if TYPE_CHECKING:
    from portal.slurm import Cluster

_MEMORY = "4G"


class _Job(NamedTuple):
    node: str
    id: str
    follower: Follower


class NodeCopies:
    """Unpacker of an environment's image on nodes, as the account of the builds."""

    def __init__(self, cluster: Cluster, images: Images, log: object) -> None:
        self._cluster, self._images = cluster, images
        self._jobs = Submitter(cluster, images, log)

    async def failures(
        self, environment: Environment, nodes: Sequence[str]
    ) -> AsyncIterator[tuple[str, str]]:
        """Unpack as `make` does; yield each node and why it has no copy, "" if it has."""
        async for node, end in self.make(environment, nodes):
            yield node, "" if end.state is WorkState.PASSED else end.message

    async def make(
        self, environment: Environment, nodes: Sequence[str] = (), interval: float = 1.0
    ) -> AsyncIterator[tuple[str, End]]:
        """Unpack the image on ``nodes`` (empty: all that take jobs); yield (node, End) for each.

        Raises InvalidRequest, ConfigurationError, SlurmUnavailable before the first job.
        """
        target = node_copy(environment, self._images.node_cache)
        if not self._images.node_cache:
            raise ConfigurationError("c.Images.node_cache is not set: sessions start from the SIF.")
        if not target:
            raise InvalidRequest(
                f"The image of '{environment.name}' was not built by the portal, so it cannot "
                "be cached on nodes."
            )
        snapshot = await self._cluster.snapshot(time.monotonic())
        if snapshot.error:
            raise SlurmUnavailable(snapshot.error)
        usable = [name for name, node in snapshot.nodes.items() if node.usable and not node.asleep]
        unknown = sorted(set(nodes) - set(snapshot.nodes))
        if unknown:
            raise InvalidRequest(f"Slurm has no node {', '.join(unknown)}.")
        live: list[_Job] = []
        for node in nodes or usable:
            try:
                live.append(await self._submitted(environment, target, node, snapshot))
            except SlurmRefused as error:
                yield node, End(WorkState.UNKNOWN, error.message)
        while live:
            await asyncio.sleep(interval)
            snapshot = await self._cluster.snapshot(time.monotonic())
            for job in tuple(live):
                status = await job.follower.job_state(job.id, self._cluster, snapshot)
                if status.end is not None:
                    live.remove(job)
                    job.follower.path.unlink(missing_ok=True)
                    yield job.node, status.end

    async def _submitted(
        self, environment: Environment, target: str, node: str, snapshot: ClusterSnapshot
    ) -> _Job:
        nonce, log = new_nonce(), await self._jobs.new_log(Work.CACHE)
        path = Path(self._images.log_directory) / log
        argv, env = image_job_command(
            self._jobs.job(Work.CACHE, nonce, environment, target=target),
            self._resources(node, snapshot),
            name=f"portal-{Work.CACHE}-{node}",
            output=str(path),
            directory="/tmp",  # noqa: S108  every node and account has it; nothing is put there
            python=self._images.python,
            comment=f"portal:{Work.CACHE}:{node}",
        )
        sbatch, *args = argv
        try:
            id_ = await self._cluster.submit(
                [sbatch, f"--nodelist={node}", *args], env, self._jobs.account
            )
        except (SlurmRefused, SlurmUnavailable):
            path.unlink(missing_ok=True)
            raise
        return _Job(node, id_, Follower(path, nonce, Work.CACHE))

    def _resources(self, node: str, snapshot: ClusterSnapshot) -> Resources:
        """Return one CPU on ``node``, in the partition of the builds if that has the node."""
        resources = self._images.build_resources()
        candidates = [
            candidate.name for candidate in snapshot.partitions.values() if node in candidate.nodes
        ]
        partition = resources.partition
        if partition not in candidates:
            partition = candidates[0] if candidates else partition
        return resources.model_copy(update={"cpus": 1, "memory": _MEMORY, "partition": partition})
