"""The demo's runs: a finished search of learning rates with its curves and a point that failed, and
one that goes on (`live_run`)."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from sqlalchemy import Delete, delete

from portal.models.cluster.job_use import JobUse
from portal.models.session.run import Curves, PointState, Run, RunPoint
from portal.models.session.session import SessionRecord, SessionState
from portal.store import Store
from portal.work.run.kind import OPTION
from portal.work.run.kind import Run as RunKind
from portal.work.run.tables.curves import RunCurveTable, run_curves
from portal.work.run.tables.points import RunPointTable, run_points
from portal.work.run.tables.runs import RunTable, runs

from .live_run import start_run
from .part import DemoPart
from .showcase.past import ACCOUNT, MINUTE, PREFIX, TITLES, Past, usage_of
from .showcase.use_past import use_of

USER, ID = "ada", "00e8a3b1-1ea2-4c8e-9a6f-1d2e3f405162"
_JOB = f"{PREFIX}run"
_KEY = (USER, ID)
_AGO = 26 * 60 * MINUTE  # since the run began
_AT_ONCE, _EPOCHS, _LENGTH = 4, 30, 7 * MINUTE
_GRID = list(product((0.1, 0.03, 0.01, 0.003, 0.001), (32, 64, 128)))
_FAILS = 1  # of _GRID: a rate that is too high
_RESOURCES = {"gpus": 1, "gpu_type": "v100", "cpus": 2, "memory": "4G", "time": "0:30:00"}
_MESSAGE = "RuntimeError: The loss is not a number. Choose a smaller learning_rate."


@dataclass(frozen=True)
class RunPast(Past):
    """Past of a run."""

    run: Run
    points: Sequence[RunPoint]
    curves: Sequence[Curves]
    uses: Sequence[JobUse]

    async def write(self, store: Store) -> None:
        await super().write(store)
        await store.table(RunTable).add_run(self.run)
        await store.table(RunPointTable).save([(_KEY, point) for point in self.points])
        await store.table(RunCurveTable).save(
            [(_KEY, number, 1, curves) for number, curves in enumerate(self.curves)]
        )
        await store.job_use.save(self.uses)


async def past(_store: Store, now: float) -> RunPast:
    """Return the past of a demo that begins ``now`` (Unix seconds)."""
    return finished_run(now)


def finished_run(now: float) -> RunPast:
    """Return a run that was over before ``now`` (Unix seconds)."""
    began = now - _AGO
    curves = [_curves(number, *pair) for number, pair in enumerate(_GRID)]
    points = list(_points(began, curves))
    run = Run.model_validate(
        {
            "id": ID,
            "name": "learning-rates",
            "source": "examples/train.ipynb",
            "folder": f"/home/{USER}/runs/learning-rates",
            "points": len(_GRID),
            "at_once": _AT_ONCE,
            "user": USER,
            "server": RunKind.server_name(ID),
            "environment": "jupyterlab",
            "resources": {
                "gpus": 1,
                "gpu_type": "v100",
                "cpus": 2,
                "memory": "4G",
                "time": "0:30:00",
            },
            "created_at": began - 5,
            "ended_at": max(point.ended_at or 0 for point in points),
            "job_id": _JOB,
        }
    )
    session = _session(run)
    usage, uses = list(usage_of(session, _AT_ONCE, 0.83)), [_use(session, p) for p in points]
    return RunPast([session], usage, run, points, curves, uses)


def removal() -> Sequence[Delete]:
    """Return the statements that delete the made up run."""
    return (
        delete(run_points).where(run_points.c.run == ID),
        delete(run_curves).where(run_curves.c.run == ID),
        delete(runs).where(runs.c.id == ID),
    )


def _curves(number: int, rate: float, batch: int) -> Curves:
    """Return what a point logged in each epoch; the one that fails has few."""
    chance = random.Random(number)  # noqa: S311  the same in every demo
    best = 1.1 - 0.09 * abs(math.log(rate / 0.01)) - 0.02 * abs(math.log2(batch / 64)) - 0.16
    pace = 4 + 3 * abs(math.log10(rate / 0.03)) + batch / 64
    epochs = 4 if number == _FAILS else _EPOCHS
    accuracy = [
        max(0.1, min(0.99, best * (1 - math.exp(-epoch / pace)) + chance.gauss(0, 0.008)))
        for epoch in range(1, epochs + 1)
    ]
    return {
        "accuracy": [(float(epoch), round(value, 4)) for epoch, value in enumerate(accuracy, 1)],
        "loss": [
            (float(epoch), round(-math.log(value) + 0.05, 4))
            for epoch, value in enumerate(accuracy, 1)
        ],
    }


def _points(began: float, curves: Sequence[Curves]) -> Iterator[RunPoint]:
    """Yield the ended points, as many at once as the run has."""
    for number, (rate, batch) in enumerate(_GRID):
        failed = number == _FAILS
        started = began + number // _AT_ONCE * (_LENGTH + 5) + 2 * (number % _AT_ONCE)
        yield RunPoint(
            number=number,
            state=PointState.FAILED if failed else PointState.SUCCEEDED,
            cell=3 if failed else 4,
            cells=4,
            message=_MESSAGE if failed else "",
            metrics={name: pairs[-1][1] for name, pairs in curves[number].items()},
            parameters={"learning_rate": rate, "batch_size": batch},
            job=f"{_JOB}_{number}",
            attempt=1,
            started_at=started,
            ended_at=started + (MINUTE if failed else _LENGTH - number % 3 * 20),
        )


def _use(session: SessionRecord, point: RunPoint) -> JobUse:
    """Return what a point's job used over time."""
    times = {"started_at": point.started_at, "ended_at": point.ended_at}
    task = session.model_copy(update={"id": point.job, "job_id": point.job, **times})
    return use_of(task, 1, 0.6 + 0.02 * point.number, 2200 + 50 * point.number)


def _session(run: Run) -> SessionRecord:
    return SessionRecord(
        id=run.job_id,
        user=run.user,
        server=run.server,
        work="run",
        account=ACCOUNT,
        environment=run.environment,
        environment_title=f"Run {run.name} of {TITLES[run.environment]}",
        options={**run.resources, "environment": run.environment, OPTION: {"id": run.id}},
        job_id=run.job_id,
        state=SessionState.ENDED,
        submitted_at=run.created_at,
        started_at=run.created_at + 5,
        ready_at=run.created_at + 5,
        ended_at=run.ended_at,
        nodes=("gpu01",),
        ending_code="completed",
        ending_message=RunKind.words.shut_down,
        exit_code=0,
        peak_memory=2900,
        time_limit=1800,
    )


PART = DemoPart(lambda *_: None, past, removal, start_run)
