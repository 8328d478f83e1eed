"""Submission and cancellation of jobs, the two changes that the watcher makes to a cluster."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any

from portal.errors import InvalidRequest, PortalError, SlurmRefused

from ..commands.run import Output, SlurmRunner
from .end import forgotten

_JOB_ID = re.compile(r"[0-9]{1,12}(_[0-9]{1,9})?\Z")


class Submissions:
    """Calls of sbatch and scancel, as the person whose job it is."""

    def __init__(self, runner: SlurmRunner, log: Any) -> None:
        self._runner = runner
        self._log = log
        self._drops: set[asyncio.Task[bool]] = set()

    async def submit(
        self,
        argv: Sequence[str],
        env: Mapping[str, str] | None,
        user: str | None,
        limit: float | None,
    ) -> str:
        """See Cluster.submit; ``limit`` is in seconds."""
        args = list(argv)
        if "--parsable" not in args:
            args.insert(1, "--parsable")
        running = asyncio.ensure_future(self._runner.run(args, user=user, env=env, timeout=limit))
        try:
            output = await asyncio.shield(running)
        except asyncio.CancelledError:
            running.add_done_callback(lambda done: self._drop(done, user))
            raise
        return job_id_of(output.stdout)

    async def cancel(
        self, job_id: str, user: str | None, gently: bool = False, waiting: bool = False
    ) -> bool:
        """See Cluster.cancel."""
        how = ["--state=PENDING"] if waiting else []
        how += ["--batch", "--signal=TERM"] if gently else []
        try:
            await self._runner.run(["scancel", *how, check_job_id(job_id)], user=user)
        except SlurmRefused as error:
            if forgotten(error):
                return False
            raise
        return True

    def _drop(self, done: asyncio.Future[Output], user: str | None) -> None:
        """Cancel a job whose submitter went away before it had an id."""
        if done.cancelled() or done.exception():
            return
        try:
            job_id = job_id_of(done.result().stdout)
        except PortalError:
            return
        self._log.warning("Cancelling job %s: its launch was cancelled", job_id)
        task = asyncio.ensure_future(self.cancel(job_id, user))
        self._drops.add(task)
        task.add_done_callback(self._dropped)

    def _dropped(self, task: asyncio.Task[bool]) -> None:
        self._drops.discard(task)
        if not task.cancelled() and task.exception():
            self._log.error(
                "A job of a cancelled launch could not be cancelled: %s", task.exception()
            )


def check_job_id(text: str) -> str:
    """Return ``text`` if it is "1234" or "1234_5"; else raise InvalidRequest."""
    if not isinstance(text, str) or not _JOB_ID.match(text):
        raise InvalidRequest(f"{text!r} is not a job id.", field="job_id")
    return text


def job_id_of(stdout: str) -> str:
    """Return the job id of sbatch --parsable: "1234" or "1234;cluster". Raises SlurmRefused."""
    lines = stdout.strip().splitlines()
    job_id = lines[-1].partition(";")[0].strip() if lines else ""
    if not _JOB_ID.match(job_id):
        raise SlurmRefused(f"sbatch returned {stdout.strip()[:200]!r} instead of a job id.")
    return job_id
