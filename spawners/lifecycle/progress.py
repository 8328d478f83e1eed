"""Messages about a session's start, for the progress page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Any

from portal.models.cluster.cluster import ClusterSnapshot, Job
from portal.spaces.job_space import MINE, JobSpace

from ..form import words
from .job_watch import unanswering

LOOK_EVERY = 0.5  # seconds between two checks for a new message

# Event of the stream that reads messages in its task (hub_patches/progress_stream.py): set once
# the stream has no reader.
LEFT: ContextVar[asyncio.Event | None] = ContextVar("portal_progress_left", default=None)


class Progress:
    """Latest message of one start in ``space``. The spawner writes it, open pages read it."""

    def __init__(self, space: JobSpace = MINE) -> None:
        self.message = "Checking the request"
        self.percent = 5
        self.job_id = ""
        self._space = space

    def submitted(self, job_id: str, why: str = "") -> None:
        """Note that Slurm accepted the job. ``why``: what came before, if it is not the first."""
        self.job_id = job_id
        message = f"{why}. Submitted again as job {job_id}" if why else ""
        self._say(20, message or f"Submitted to Slurm as job {job_id}")

    def see(self, job: Job | None, snapshot: ClusterSnapshot, position: int | None) -> None:
        """Note what the newest snapshot says of the job; ``position`` is its place in the queue."""
        if snapshot.error:
            age = words.duration(snapshot.age)
            message = f"Slurm does not answer; its last data is {age} old. Still waiting"
            self._say(self.percent, message)
        elif job is None:
            return
        elif job.state.pending:
            text = words.pending(job, position)
            way_out = self._space.way_out(job.reason)
            self._say(30, f"Job {job.id}: {text}{f'. {way_out}' if way_out else ''}")
        elif job.state.running:
            silent = unanswering(job, snapshot)
            note = f". {silent} does not answer Slurm" if silent else ""
            self._say(60, f"Job {job.id} is starting on {', '.join(job.nodes)}{note}")

    def say(self, message: str) -> None:
        """Show another message; the bar stays where it is."""
        self._say(self.percent, message)

    def _say(self, percent: int, message: str) -> None:
        self.percent, self.message = percent, message

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """Yield JupyterHub's progress events, one for each change, until its stream has no reader:
        the Hub stops reading when the start is over (jupyterhub.spawner.Spawner.progress)."""
        last_state = None
        left = LEFT.get()
        while left is None or not left.is_set():
            now = (self.percent, self.message)
            if now != last_state:
                last_state = now
                yield {"progress": self.percent, "message": self.message, "job_id": self.job_id}
            await asyncio.sleep(LOOK_EVERY)
