"""Submission of the jobs of kernels: one for each kernel, whoever asks for it first.

The session's server asks before a new kernel's relay is there, which takes a quarter of a second to
load. Slurm starts batch jobs once a second, so the job waits for Slurm meanwhile, and its starter
for the relay's address in the record.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import Any, Callable

from ..portal_error import AWAY, PAUSE
from ..service import ServiceError
from ..situation import in_thread
from . import record as records
from .record import BadRecord, Record

OUTAGE = 600.0  # seconds for which a job's request is repeated while the portal is away
HELD = 20.0  # seconds until a relay that requests a job is told that it waits
PATH = "session/kernels"  # of the service
_BUSY = 409  # the kernel's former job still ends: its relay asks again


class Submitter:
    """Submissions of kernels' jobs. ``states``: the session's kernels (`broker.Kernels`), with the
    way to the portal; ``clock`` returns monotonic seconds."""

    def __init__(self, states: Any, clock: Callable[[], float]) -> None:
        self._states, self._clock = states, clock
        self._session = os.environ.get("JUPYTERHUB_SERVICE_PREFIX", "")
        self._begun: dict[str, asyncio.Future[dict[str, Any]]] = {}  # by kernel
        self._stopped: set[str] = set()  # kernels whose submission must not go on

    async def begin_early(self, id: str, request: dict[str, Any], spec: str) -> None:
        """Submit the job of the kernel ``id``, unless it has a record: then it may have a job
        already. ``request``, ``spec``: as in a record."""
        if await in_thread(self._recorded, id, request, spec):
            self._begun.pop(id, None)  # of a kernel of this id before, which is gone
            self.begin({"id": id, **request})

    def _recorded(self, id: str, request: dict[str, Any], spec: str) -> bool:
        """Write a record without an address, by which the job is ended if its relay never comes
        (`adoption`); return False if there is one, or none can be written."""
        try:
            if records.path_of(id).exists():
                return False
            records.write(Record(id, request, "", "", "", session=self._session, spec=spec))
        except BadRecord:
            return False  # the relay says why
        return True

    def begin(self, body: dict[str, Any]) -> asyncio.Future[dict[str, Any]]:
        """Submit the job of a kernel, unless that has begun; return the portal's answer to come."""
        id = str(body.get("id"))
        if id not in self._begun:
            self._stopped.discard(id)
            self._begun[id] = begun = asyncio.ensure_future(self._submit(body))
            begun.add_done_callback(lambda done: done.cancelled() or done.exception())
        return self._begun[id]

    async def submit(self, body: dict[str, Any]) -> dict[str, Any]:
        """Submit the job of a kernel, unless that has begun, for its relay. While the portal is
        away, return its state now and then, with "away": then ask again. Raises ServiceError."""
        id, begun = str(body.get("id")), self.begin(body)
        await asyncio.wait({begun}, timeout=HELD)
        if not begun.done():
            return {**self._states.answers.get(id, {}), "away": True}
        self._begun.pop(id, None)
        return await begun

    def submits(self, id: str) -> bool:
        """Return True while the portal has not answered the request for a kernel's job."""
        return id in self._begun and not self._begun[id].done()

    async def end(self, id: str) -> None:
        """Wait for a submission, which is not repeated any more: a job that is not there yet cannot
        be ended."""
        begun = self._begun.pop(id, None)
        self._stopped.add(id)
        if begun is not None:
            await asyncio.wait({begun})
        self._stopped.discard(id)

    async def _submit(self, body: dict[str, Any]) -> dict[str, Any]:
        id, away, states = body.get("id"), 0.0, self._states
        states.note(id, "waiting", "The job is being submitted.")
        while True:
            try:
                return await states.ask("POST", PATH, body)
            except ServiceError as error:
                away = away or (self._clock() + OUTAGE if error.away else 0.0)
                if error.away and self._clock() < away and id not in self._stopped:
                    states.note(id, "waiting", AWAY.format(round(OUTAGE / 60)))
                    await asyncio.sleep(PAUSE)
                    continue
                # A request that was not answered may have been accepted.
                if error.status == _BUSY and away and (state := await self._living(str(id))):
                    return state
                if error.status != _BUSY:
                    states.note(id, "ended", str(error))
                raise

    async def _living(self, id: str) -> dict[str, Any]:
        """Return the status of a kernel's job that waits or runs; {} if there is none."""
        with contextlib.suppress(ServiceError):
            status = await self._states.ask("GET", f"{PATH}/{id}")
            if status.get("state") != "ended":
                return status
        return {}
