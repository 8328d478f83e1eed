"""Clusters of this session's kernels, in its server: it asks the portal for their workers, knows
where the scheduler's pages are, and ends what a kernel has left.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Callable

from ..job_kernels.record import BadRecord
from ..job_kernels.wire.keys import make_keys
from ..job_kernels.wire.listener import PORTS
from ..programs.program import connects
from ..programs.runtime import Place, Runtime
from ..service import ServiceError
from ..situation import in_thread
from . import leaf
from . import record as records
from .record import ClusterRecord

PATH = "session/clusters"  # of the service
ENGINES = ("dask", "ray")
_EVERY = 3.0  # seconds between two looks at the schedulers
_GRACE = 2  # looks without a scheduler, after which its workers are ended
_FIRST = 20  # looks until a new cluster's scheduler must be there
_TRIES, _PAUSE = 10, 2.0  # while a new session is not known to the portal, or it is away
_UNKNOWN = 404
_LONGEST = 4096  # characters of a path


class OneCluster:
    """Cluster of a kernel, whose scheduler serves its pages at the socket of ``place``."""

    def __init__(self, record: ClusterRecord, place: Place) -> None:
        self.record, self.place = record, place
        self.resources: dict[str, Any] = {}  # of each worker
        self.patience = _FIRST  # looks that are left without a scheduler


class Clusters:
    """Clusters of the session. ``kernels``: its job kernels (`broker.Kernels`), with the way to the
    portal; ``base``: path of its address, with a slash at the end."""

    def __init__(self, kernels: Any, base: str, environ: Mapping[str, str], log: Any) -> None:
        self._kernels, self._base, self._environ, self._log = kernels, base, environ, log
        self._runtimes: dict[str, Runtime] = {}
        self._task: asyncio.Task[None] | None = None
        self.clusters: dict[str, OneCluster] = {}

    async def make(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Make the keys of a new cluster; return what its scheduler needs. ``body``: the kernel's
        ``python`` and ``cwd``, and the ``engine``. Raises ServiceError."""
        python, cwd = (path_in(body, name) for name in ("python", "cwd"))
        engine = body.get("engine", "dask")
        if engine not in ENGINES:
            raise ServiceError(f"'engine' must be {' or '.join(ENGINES)}.", 400)
        offered, about = await asyncio.gather(
            self._patiently("GET", PATH), self._kernels.whereabouts()
        )
        certificate, private_key = await in_thread(make_keys)
        id, ports = uuid.uuid4().hex[:16], self._environ.get(PORTS, "")
        token = secrets.token_hex(32) if engine == "ray" else ""
        record = ClusterRecord(id, python, cwd, certificate, private_key, ports, token=token)
        try:
            place = await in_thread(self._place, engine)
            if engine == "ray":
                about["address"] = await in_thread(leaf.address_of, about["address"])
                await in_thread(leaf.write_keys, place.path, record, about["address"])
        except OSError as error:
            raise ServiceError(str(error), 503) from None
        self.clusters[id] = OneCluster(record, place)
        if self._task is None:
            self._task = asyncio.ensure_future(self._follow())
        return {
            **about,
            "id": id,
            "most": offered["most"],
            "certificate": certificate,
            "private_key": private_key,
            "ports": ports,
            "socket": str(place.socket),
            "folder": str(place.path),
            "memory": self._environ.get("SLURM_MEM_PER_NODE", ""),
            "path": f"{self._base}portal/clusters/{id}/",
        }

    def _place(self, engine: str) -> Place:
        """Return a new place for a cluster's files. Raises OSError."""
        if engine not in self._runtimes:
            longest = {"longest": leaf.SOCKET} if engine == "ray" else {}
            self._runtimes[engine] = Runtime.make(self._environ, **longest)
        return self._runtimes[engine].claim()

    async def have(self, id: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Have a number of workers for a scheduler at ``address``. Raises ServiceError."""
        cluster, address = self._named(id), body.get("address")
        if not isinstance(address, str) or not address.startswith("tls://"):
            raise ServiceError("'address' must be the scheduler's, such as tls://node:4000.", 400)
        try:
            if cluster.record.address != address:
                cluster.record = cluster.record._replace(address=address)
                await in_thread(records.write, cluster.record)
        except BadRecord as error:
            raise ServiceError(str(error), 503) from None
        cluster.patience = _GRACE  # it listens
        resources = body.get("resources")
        if not isinstance(resources, dict) or {"workers", "engine"} & resources.keys():
            raise ServiceError("'resources' must be a JSON object.", 400)
        cluster.resources = {**resources, "engine": "ray"} if cluster.record.token else resources
        wanted = {**cluster.resources, "workers": body.get("workers")}
        return await self._patiently("PUT", f"{PATH}/{id}", wanted)

    async def scale(self, id: str, workers: Any) -> dict[str, Any]:
        """Have another number of workers; the cluster's kernel sees it. Raises ServiceError."""
        wanted = {**self._named(id).resources, "workers": workers}
        answer: dict[str, Any] = await self._kernels.ask("PUT", f"{PATH}/{id}", wanted)
        return answer

    async def state(self, id: str) -> dict[str, Any]:
        """Return a cluster as the portal has it. Raises ServiceError."""
        self._named(id)
        answer: dict[str, Any] = await self._kernels.ask("GET", f"{PATH}/{id}")
        return answer

    async def end(self, id: str) -> dict[str, Any]:
        """End the workers of a cluster, and forget it. Raises ServiceError."""
        cluster = self._named(id)
        try:
            await self._kernels.ask("DELETE", f"{PATH}/{id}")
        except ServiceError as error:
            if error.status != _UNKNOWN:
                raise
        self.clusters.pop(id, None)
        await in_thread(records.remove, id)
        await in_thread(cluster.place.remove)
        return {}

    def socket(self, id: str) -> Path | None:
        """Return where the scheduler of a cluster serves its pages; None without one. Ray's would
        need agents on all nodes, with pages that are not encrypted."""
        cluster = self.clusters.get(id)
        if cluster is None or cluster.record.token or not connects(cluster.place.socket):
            return None
        return cluster.place.socket

    def stop(self) -> None:
        """Stop looking; the portal ends the workers of a session that is over."""
        if self._task is not None:
            self._task.cancel()
        for id in self.clusters:
            records.remove(id)
        for runtime in self._runtimes.values():
            runtime.remove()

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(_EVERY)
            for id in list(self.clusters):
                with contextlib.suppress(ServiceError):  # next time
                    await self.check_scheduler(id)

    async def check_scheduler(self, id: str) -> None:
        """End a cluster whose scheduler is gone: its kernel has ended, or was restarted. Raises
        ServiceError."""
        cluster = self.clusters.get(id)
        if cluster is None:
            return
        if connects(cluster.place.socket):
            cluster.patience = _GRACE
            return
        cluster.patience -= 1
        if cluster.patience < 0:
            self._log.info("The scheduler of cluster %s is gone: its workers are ended.", id)
            await self.end(id)

    def _named(self, id: str) -> OneCluster:
        if id not in self.clusters:
            raise ServiceError("This session has no such cluster.", _UNKNOWN)
        return self.clusters[id]

    async def _patiently(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Send a request to the service, again while it is away. Raises ServiceError."""
        ask: Callable[..., Any] = self._kernels.ask
        for _ in range(_TRIES):
            try:
                answer: dict[str, Any] = await ask(method, path, body)
                return answer
            except ServiceError as error:
                if not error.away:
                    raise
                await asyncio.sleep(_PAUSE)
        raise ServiceError("The portal does not answer. Try again in a minute.", 503, away=True)


def path_in(body: Mapping[str, Any], name: str) -> str:
    """Return the absolute path that a request names. Raises ServiceError."""
    value = body.get(name)
    if not isinstance(value, str) or not os.path.isabs(value) or len(value) > _LONGEST:  # noqa: PTH117
        raise ServiceError(f"'{name}' must be an absolute path.", 400)
    return value
