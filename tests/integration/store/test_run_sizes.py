"""Bytes that runs have stored: exact, whatever is written in which order, and within the limits."""

from __future__ import annotations

import random

import pytest
from sqlalchemy import select

from portal.models.session.run import PointState, RunPoint
from portal.models.session.run_logged import Logged
from portal.models.session.run_output import PointOutput, StoredOutput
from portal.store import Store
from portal.work.run.tables import sizes
from portal.work.run.tables.curves import run_curves
from portal.work.run.tables.logged import run_logged
from portal.work.run.tables.outputs import run_outputs
from portal.work.run.tables.points import run_points
from portal.work.run.tables.sizes import run_sizes

KEY, OTHER = ("ada", "5e2f3c1a"), ("ada", "6e2f3c1a")
CHANCE = random.Random(3)


def words(length: int) -> str:
    return "".join(CHANCE.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=length))


def point(number: int, size: int, **more: object) -> RunPoint:
    values = {f"p{n}": words(100) for n in range(size // 100)}
    return RunPoint(number=number, parameters=values, **more)  # type: ignore[arg-type]


async def saved(store: Store) -> dict[tuple[str, str], int]:
    rows = await store.runs._rows_of(select(run_sizes))
    return {(row.user, row.run): row.bytes for row in rows}


async def counted(store: Store) -> int:
    """What KEY has, by looking at all of its rows."""
    total = 0
    for table, names in (
        (run_points, ("metrics", "parameters", "drift", "message")),
        (run_curves, ("curves",)),
        (run_outputs, ("output",)),
        (run_logged, ("logged",)),
    ):
        writer = sizes.Sizes(table, *names)
        query = select(table.c.number).where(table.c.user == KEY[0], table.c.run == KEY[1])
        rows = [{"number": row.number} for row in await store.runs._rows_of(query)]
        stored = await store.database.run(lambda at, w=writer, r=rows: w._stored(at, KEY, r))
        total += sum(stored.values())
    return total


async def test_they_are_exact(store: Store) -> None:
    await store.run_points.save([(KEY, point(0, 200)), (OTHER, point(0, 300))])
    assert await saved(store) == {}, "small rows are free"
    for _ in range(40):
        number, size = CHANCE.randrange(5), CHANCE.choice([0, 500, 4000, 9000])
        state = CHANCE.choice([PointState.RUNNING, PointState.SUCCEEDED])
        attempt = CHANCE.randrange(1, 4)
        await store.run_points.save([(KEY, point(number, size, state=state, attempt=attempt))])
        curve = [(float(x), CHANCE.random()) for x in range(CHANCE.choice([1, 200]))]
        await store.run_curves.save([(KEY, number, attempt, {"loss": curve})])
        output = PointOutput(log=words(CHANCE.choice([10, 8000])))
        await store.run_outputs.save(
            KEY, number, StoredOutput(attempt=attempt, at=1, output=output)
        )
        logged = Logged.trusted(images={"plot": CHANCE.randbytes(CHANCE.choice([10, 8000]))})
        await store.run_logged.save(KEY, number, attempt, logged)
    assert (await saved(store))[KEY] == await counted(store) > 0


@pytest.mark.parametrize("limit", ["MOST_OF_RUN", "MOST_OF_USER"])
async def test_beyond_the_limits_states_are_stored_without_values(
    store: Store, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(sizes, limit, 50_000)
    other = KEY if limit == "MOST_OF_RUN" else OTHER
    for number in range(20):
        key = KEY if number % 2 else other
        await store.run_points.save([(key, point(number, 9000, state=PointState.RUNNING))])
        curve = [(float(x), CHANCE.random()) for x in range(200)]
        await store.run_curves.save([(key, number, 1, {"loss": curve, "acc": curve[::-1]})])
        output = StoredOutput(attempt=1, at=1, output=PointOutput(log=words(8000)))
        await store.run_outputs.save(key, number, output)
        logged = Logged.trusted(images={"plot": CHANCE.randbytes(8000)})
        await store.run_logged.save(key, number, 1, logged)
    assert sum((await saved(store)).values()) <= 50_000
    numbers = range(20)
    points = await store.run_points.of_run(*KEY, numbers)
    if other != KEY:
        points |= await store.run_points.of_run(*other, numbers)
    assert set(points) == set(numbers)
    assert points[0].parameters and not points[0].message
    last = points[19]
    assert last.state is PointState.RUNNING and not last.parameters
    assert "the portal keeps no more of this run" in last.message
    await store.run_points.save([(KEY, point(19, 500, state=PointState.SUCCEEDED))])
    last = (await store.run_points.of_run(*KEY, [19]))[19]
    assert last.state is PointState.SUCCEEDED and last.parameters, "a small row is free"
    await store.run_points.save([(("barbara", "5e2f3c1a"), point(0, 9000))])
    theirs = (await store.run_points.of_run("barbara", "5e2f3c1a", [0]))[0]
    assert theirs.parameters, "another user has his own limit"
