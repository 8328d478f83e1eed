"""Kernels of a session's former server, taken up by the next one.

A server that was killed leaves the jobs of its kernels. The one that follows it, in a new job of
the session, starts their relays again under the same ids, which find the jobs by their records.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Any

from ..service import ServiceError
from ..situation import in_thread
from . import record as records
from .broker import Kernels
from .record import BadRecord

_EVERY = 5.0  # seconds between two looks at the sessions of notebooks
_GRACE = 6  # looks for which a record may be without a kernel here, before its job ends


class Adoption:
    """Job kernels of this server, and those of the servers before it. ``app``: its ServerApp."""

    def __init__(self, app: Any, kernels: Kernels) -> None:
        self._app, self._kernels = app, kernels
        self._session = os.environ.get("JUPYTERHUB_SERVICE_PREFIX", "")
        self._task: asyncio.Task[None] | None = None
        self._alone: dict[str, int] = {}  # looks since a record has had no kernel here

    async def expect(self) -> None:
        """Delay opening the notebooks of kernels that are about to be taken up."""
        for id in await in_thread(records.ids):
            with contextlib.suppress(BadRecord):
                record = await in_thread(records.read, id)
                if record.session == self._session and record.submitted and record.notebook:
                    self._app.portal_unattended.awaited.expect(record.notebook)

    async def begin(self) -> None:
        """Take up what former servers left, once, and then keep the records true."""
        if self._task is None:
            await self._adopt()
            self._task = asyncio.ensure_future(self._follow())

    def end(self) -> None:
        """Stop looking."""
        if self._task is not None:
            self._task.cancel()

    async def _adopt(self) -> None:
        for id in await in_thread(records.ids):
            with contextlib.suppress(BadRecord):
                record = await in_thread(records.read, id)
                if record.session == self._session and id not in self._app.kernel_manager:
                    await self._take_up(record)
                    if id not in self._app.kernel_manager:
                        self._app.portal_unattended.awaited.arrived(record.notebook)

    async def _take_up(self, record: records.Record) -> None:
        try:
            state = (await self._kernels.status(record.id)).get("state")
        except ServiceError as error:
            state = "ended" if error.status == 404 else "unknown"
        if state == "ended":
            await in_thread(records.remove, record.id)
            return
        # A notebook's warm kernel, since what used it ended with the server; or one whose relay
        # did not get to know of its job.
        if not record.spec or not record.submitted:
            with contextlib.suppress(ServiceError):
                await self._kernels.stop(record.id)
                await in_thread(records.remove, record.id)
            return
        await in_thread(records.write, record.but(adopt=True))
        path = record.notebook
        try:
            await self._app.kernel_manager.start_kernel(
                kernel_name=record.spec, kernel_id=record.id, path=path or None
            )
            self._app.portal_unattended.follow(record.id)  # its cells go on in the notebook
            if path:
                await self._app.session_manager.create_session(
                    path=path,
                    name=Path(path).name,
                    type="notebook",
                    kernel_name=record.spec,
                    kernel_id=record.id,
                )
        except Exception as error:  # its kernelspec may be gone; the job ends by itself
            self._app.log.warning("Kernel %s was not adopted: %s", record.id, error)

    async def continue_life(self, id: str) -> bool:
        """Let the next relay of a kernel take it up: the last one was killed. The kernel goes on
        with its variables, and its cells with their outputs. Return False if it did not run yet."""
        with contextlib.suppress(BadRecord):
            if await in_thread(records.adopt, id):
                self._app.portal_unattended.follow(id)
                return True
        return False

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(_EVERY)
            try:
                await self._look()
            except (BadRecord, ServiceError, OSError) as error:
                self._app.log.warning("Job kernels: %s", error)

    async def _look(self) -> None:
        """Write the notebooks into the records; end jobs whose relay is gone."""
        kernel_ids = await in_thread(records.ids)
        if not kernel_ids:
            return
        sessions = await self._app.session_manager.list_sessions()
        paths = {item["kernel"]["id"]: item.get("path") or "" for item in sessions}
        for id in kernel_ids:
            record = await in_thread(records.read, id)
            if record.session != self._session:
                continue
            if id in self._app.kernel_manager or await in_thread(_lives, record.relay):
                self._alone.pop(id, None)
                if paths.get(id, record.notebook) != record.notebook:
                    await in_thread(records.note, id, paths[id])
                continue
            self._alone[id] = self._alone.get(id, 0) + 1
            if self._alone[id] > _GRACE:
                with contextlib.suppress(ServiceError):
                    await self._kernels.stop(id)
                    await in_thread(records.remove, id)
                    del self._alone[id]


def _lives(relay: str) -> bool:
    """Return True if the relay (``JOB:PID``) is a process of this job."""
    job, _, pid = relay.partition(":")
    if job != os.environ.get("SLURM_JOB_ID", "") or not pid.isdecimal():
        return False
    try:
        return b"job_kernels" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
