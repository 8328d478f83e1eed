"""Kept clusters, in the session's server: it makes them at the portal, says where their schedulers
are, and brings their pages to the browser."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tornado.netutil import bind_unix_socket

from ...job_kernels.record import BadRecord
from ...job_kernels.wire.keys import context, make_keys
from ...programs.program import connects
from ...programs.runtime import Place, Runtime
from ...service import ServiceError
from ...situation import in_thread
from .. import record as records
from ..clusters import PORTS, path_in
from ..record import ClusterRecord
from . import state as states
from .relay import serve_socket
from .starter import PATH
from .state import KeptState

_UNKNOWN = 404


class KeptClusters:
    """Kept clusters of the session's user. ``kernels``: the session's job kernels
    (`broker.Kernels`), with the way to the portal; ``base``: path of its address, with a slash at
    the end."""

    def __init__(self, kernels: Any, base: str, environ: Mapping[str, str]) -> None:
        self._kernels, self._base, self._environ = kernels, base, environ
        self._runtime: Runtime | None = None
        self._places: dict[str, Place] = {}
        self._servers: dict[str, Any] = {}

    async def make(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Make a kept cluster. ``body``: the kernel's ``python`` and ``cwd``, the number of
        ``workers``, their ``resources``, and ``keep``, the time limit of the scheduler. Raises
        ServiceError."""
        python, cwd = (path_in(body, name) for name in ("python", "cwd"))
        resources = body.get("resources")
        if not isinstance(resources, dict) or {"workers", "keep"} & resources.keys():
            raise ServiceError("'resources' must be a JSON object.", 400)
        offered = await self._kernels.ask("GET", PATH)
        certificate, private_key = await in_thread(make_keys)
        id, ports = uuid.uuid4().hex[:16], self._environ.get(PORTS, "")
        try:
            await in_thread(
                records.write, ClusterRecord(id, python, cwd, certificate, private_key, ports)
            )
            await in_thread(states.write, id, KeptState(resources, float(offered["idle"])))
        except BadRecord as error:
            raise ServiceError(str(error), 503) from None
        wanted = {**resources, "workers": body.get("workers"), "keep": body.get("keep") or ""}
        try:
            item = await self._kernels.ask("PUT", f"{PATH}/{id}", wanted)
        except ServiceError:
            await in_thread(_remove, id)
            raise
        return {**item, "most": offered["most"]}

    async def items(self) -> dict[str, Any]:
        """Return the user's kept clusters, and the limits. Records of others, which have ended, are
        removed. Raises ServiceError."""
        known = set(await in_thread(states.kept_ids))
        answer: dict[str, Any] = await self._kernels.ask("GET", PATH)
        living = {item["id"] for item in answer["items"]}
        for id in known - living:
            await in_thread(_remove, id)
        return answer

    async def state(self, id: str) -> dict[str, Any]:
        """Return a cluster as the portal has it, with the scheduler's address, "" until that
        listens, and the end of its job. Raises ServiceError."""
        answer: dict[str, Any] = await self._kernels.ask("GET", f"{PATH}/{id}")
        try:
            record, state = await in_thread(records.read, id), await in_thread(states.read, id)
        except BadRecord as error:
            raise ServiceError(str(error), 503) from None
        return {**answer, "scheduler": record.address, "ends": state.ends}

    async def connect(self, id: str) -> dict[str, Any]:
        """Return what a client of a cluster needs: its state, the keys, and the time at which its
        scheduler took another's place, once. Raises ServiceError."""
        answer = await self.items()
        item = next((item for item in answer["items"] if item["id"] == id), None)
        if item is None:
            raise ServiceError("You have no such kept cluster. It may have ended.", _UNKNOWN)
        try:
            record, state = await in_thread(records.read, id), await in_thread(states.read, id)
            if record.address and state.lost:
                await in_thread(states.write, id, state._replace(lost=0.0))
        except BadRecord as error:
            raise ServiceError(str(error), 503) from None
        return {
            **item,
            "most": answer["most"],
            "idle": answer["idle"],
            "scheduler": record.address,
            "certificate": record.certificate,
            "private_key": record.private_key,
            "ends": state.ends,
            "lost": state.lost if record.address else 0.0,
            "path": f"{self._base}portal/clusters/{id}/",
        }

    async def have(self, id: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Have a number of workers. Raises ServiceError."""
        try:
            state = await in_thread(states.read, id)
        except BadRecord as error:
            raise ServiceError(str(error), _UNKNOWN) from None
        wanted = {**state.resources, "workers": body.get("workers")}
        answer: dict[str, Any] = await self._kernels.ask("PUT", f"{PATH}/{id}", wanted)
        return answer

    async def end(self, id: str) -> dict[str, Any]:
        """End a cluster: its scheduler and its workers. Raises ServiceError."""
        await self._kernels.ask("DELETE", f"{PATH}/{id}")
        return {}

    async def prepare(self, id: str) -> None:
        """Serve the pages of a kept cluster's scheduler at a socket of this session, unless that is
        done."""
        if id in self._places or id not in await in_thread(states.kept_ids):
            return
        with contextlib.suppress(OSError):
            if self._runtime is None:
                self._runtime = await in_thread(Runtime.make, self._environ)
            if id in self._places:  # by another request meanwhile
                return
            self._places[id] = place = self._runtime.claim()
            at = bind_unix_socket(str(place.socket), 0o600)
            self._servers[id] = await serve_socket(at, lambda: self._pages(id))

    async def _pages(self, id: str) -> tuple[str, int, Any]:
        record, state = await in_thread(records.read, id), await in_thread(states.read, id)
        host, _, port = state.dashboard.rpartition(":")
        tls = await in_thread(_client, record)
        return host, int(port), tls

    def socket(self, id: str) -> Path | None:
        """Return the socket at which a scheduler's pages are served here; None without one."""
        place = self._places.get(id)
        return place.socket if place and connects(place.socket) else None

    def stop(self) -> None:
        """Stop serving; the clusters go on."""
        for server in self._servers.values():
            server.close()
        if self._runtime is not None:
            self._runtime.remove()


def _client(record: ClusterRecord) -> Any:
    return context(record.certificate, record.private_key, server=False)


def _remove(id: str) -> None:
    states.remove(id)
    records.remove(id)
