"""Reports and outputs that are sent with a run's token, as large and as many as the API takes: the
database and the service's memory are bounded for each user, and others' reports arrive."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from machine import patience

from portal.errors import TooManyRequests
from portal.models.session.run import Curves, PointState, Run, RunPoint
from portal.models.session.run_logged import Logged
from portal.models.session.run_output import PointOutput, StoredOutput
from portal.store import Store
from portal.work.run.reports import RunReports
from portal.work.run.tables import sizes

MIB = 1024 * 1024
REPORT = 60_000  # bytes of a report: a body has 64 KiB at most
CHANCE = random.Random(5)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = Store(url=f"sqlite:///{tmp_path}/portal.sqlite", log=logging.getLogger("store"))
    await store.upgrade()
    yield store
    await store.close()


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sixteenth of the real ones, so that the attack is short."""
    monkeypatch.setattr(sizes, "MOST_OF_RUN", sizes.MOST_OF_RUN // 16)
    monkeypatch.setattr(sizes, "MOST_OF_USER", sizes.MOST_OF_USER // 32)


def a_run(user: str, id_: str = "5e2f3c1a") -> Run:
    return Run(
        id=id_,
        name="run",
        source="train.py",
        folder="/home/x/runs/run",
        points=10_000,
        user=user,
        server=f"run-{id_}",
        environment="lab",
        created_at=1.0,
    )


def letters(length: int) -> str:
    return CHANCE.randbytes(length // 2 + 1).hex()[:length]


def large(number: int) -> tuple[RunPoint, Curves]:
    """A report with as much in it as it can have, which no compression makes smaller."""
    parameters = {f"{n}{letters(97)}": letters(200) for n in range(50)}
    curves = {f"m{n}": [(x, CHANCE.random()) for x in range(200)] for n in range(8)}
    message, drift = letters(2000), tuple(letters(300) for _ in range(30))
    point = RunPoint(
        number=number,
        state=PointState.RUNNING,
        attempt=1,
        message=message,
        parameters=parameters,
        drift=drift,
    )
    return point, curves  # type: ignore[return-value]


def file_size(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.glob("portal.sqlite*")) / MIB


@pytest.mark.usefixtures("limits")
async def test_the_database_is_bounded_for_a_user(store: Store, tmp_path: Path) -> None:
    """Some 10 MiB are sent for each of three runs; a run may have 4 MiB, a user 8."""
    table = RunReports(store, logging.getLogger("test"))
    before = file_size(tmp_path)
    for id_ in ("5e2f3c1a", "6e2f3c1a", "7e2f3c1a"):
        run = a_run("mallory", id_)
        for first in range(0, 100, 50):
            sent = [large(number) for number in range(first, first + 50)]
            await asyncio.gather(
                *(table.take(run, point, curves, REPORT) for point, curves in sent)
            )
        for number in range(20):
            output = StoredOutput(attempt=1, at=1.0, output=PointOutput(log=letters(160_000)))
            await store.run_outputs.save(("mallory", id_), number, output)
            logged = Logged.trusted(images={"plot": CHANCE.randbytes(MIB // 2)})
            await store.run_logged.save(("mallory", id_), number, 1, logged)
    assert file_size(tmp_path) - before < 8 * 1.3 + 5  # with SQLite's pages, and its log
    points = await store.run_points.of_run("mallory", "7e2f3c1a", range(100))
    assert len(points) == 100, "the states are there in any case"

    ada = a_run("ada")
    await asyncio.wait_for(table.take(ada, *large(0), REPORT), patience(5))
    (point,) = (await store.run_points.of_run("ada", ada.id, [0])).values()
    assert len(point.parameters) == 50 and await store.run_curves.numbers("ada", ada.id) == {0}
    # Runs that are deleted make room.
    for id_ in ("5e2f3c1a", "6e2f3c1a", "7e2f3c1a"):
        await store.runs.add_run(a_run("mallory", id_))
        await store.runs.end("mallory", id_, 5.0)
        await store.run_points.remove("mallory", id_)
    run = a_run("mallory", "8e2f3c1a")
    await table.take(run, *large(0), REPORT)
    (point,) = (await store.run_points.of_run("mallory", run.id, [0])).values()
    assert len(point.parameters) == 50


async def test_reports_that_wait_are_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the database is slow, those of one user do not fill the memory; others' wait."""
    free = asyncio.Event()
    save = store.run_points.save

    async def slow(points: object) -> None:
        await free.wait()
        await save(points)  # type: ignore[arg-type]

    monkeypatch.setattr(store.run_points, "save", slow)
    table, run = RunReports(store, logging.getLogger("test")), a_run("mallory")
    tasks = []
    for number in range(300):
        tasks.append(asyncio.create_task(table.take(run, *large(number), REPORT)))
        await asyncio.sleep(0)
    assert len(table._waiting) <= 16 * MIB // REPORT
    refused = [task for task in tasks if task.done()]
    assert len(refused) == 300 - 16 * MIB // REPORT
    with pytest.raises(TooManyRequests, match=r"Send this one later\."):
        await refused[0]
    theirs = asyncio.create_task(table.take(a_run("ada"), *large(0), REPORT))
    await asyncio.sleep(0)
    assert not theirs.done()
    free.set()
    results = await asyncio.gather(theirs, *tasks, return_exceptions=True)
    assert results[0] is None and not table._bytes
    await table.take(run, *large(0), REPORT)
