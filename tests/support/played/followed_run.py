"""Follower of runs with a fake Slurm and Hub: a run of four points, "rates", and its session."""

from __future__ import annotations

import logging
import time
from types import SimpleNamespace
from typing import Any

from clusters import snapshot
from fake_hub import FakeHub
from session_records import recorded

from portal.errors import SlurmUnavailable
from portal.models.cluster.cluster import Job
from portal.models.session.run import Run, RunPoint
from portal.models.session.session import SessionRecord, SessionState
from portal.store import Store
from portal.work.run.follower import RunFollower
from portal.work.run.living import LivingRuns
from portal.work.run.reports import RunReports
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.runs import RunTable

KEY = ("ada", "5e2f3c1a")
LOG = logging.getLogger("portal-test")


def a_run(**more: Any) -> Run:
    values = {
        "id": KEY[1],
        "name": "rates",
        "source": "train.py",
        "folder": "/home/ada/runs/rates",
        "points": 4,
        "user": KEY[0],
        "server": "run-5e2f3c1a",
        "environment": "lab",
        "created_at": time.time(),
    }
    return Run(**{**values, **more})


class Slurm:
    """Accounting: the ended tasks that it knows."""

    def __init__(self) -> None:
        self.tasks: dict[int, Job] | None = {}
        self.asked = 0
        self.detailed: dict[int, Job] = {}
        self.cancelled: list[tuple[str, str | None]] = []
        self.released: list[str] = []

    async def ended_tasks(self, job_id: str) -> dict[int, Job]:
        assert job_id == "12"
        self.asked += 1
        if self.tasks is None:
            raise SlurmUnavailable("It does not answer.")
        return self.tasks

    async def array_tasks(self, job_id: str) -> dict[int, Job]:
        assert job_id == "12"
        return self.detailed

    async def cancel(self, job_id: str, user: str | None = None) -> None:
        self.cancelled.append((job_id, user))

    async def start_without_waiting(self, job_id: str) -> None:
        self.released.append(job_id)


class FollowedRun:
    """A follower, with the run and its session."""

    def __init__(self, store: Store) -> None:
        self.store, self.slurm = store, Slurm()
        self.sessions: dict[str, SessionRecord] = {}
        self.reports = RunReports(store, LOG)
        self.hub = FakeHub()
        slurm: Any = self.slurm
        self.living = LivingRuns(store, slurm, self.hub, self.slurm, LOG)
        self.snapshot = snapshot()
        self.follower = RunFollower(
            store,
            self.slurm,  # type: ignore[arg-type]
            self.reports,
            lambda: SimpleNamespace(sessions=self.sessions, snapshot=self.snapshot),
            LOG,
            self.living,
        )

    async def session(self, **more: Any) -> SessionRecord:
        values = {
            "id": "S",
            "user": "ada",
            "server": "run-5e2f3c1a",
            "job_id": "12",
            "state": SessionState.RUNNING,
            "submitted_at": time.time(),
            "options": {"run": {"id": KEY[1]}},
        }
        record = recorded(**{**values, **more})
        await self.store.sessions.save(record)
        return record

    async def run(self) -> Run:
        run = await self.store.table(RunTable).get(*KEY)
        assert run is not None
        return run

    async def points(self) -> dict[int, RunPoint]:
        return await self.store.table(RunPointTable).of_whole_run(*KEY)

    async def states(self) -> dict[int, str]:
        return {
            key.number: str(key.state) for key in await self.store.table(RunPointTable).keys(*KEY)
        }
