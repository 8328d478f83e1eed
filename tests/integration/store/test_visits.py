"""What Home reads: the last visit, the newest launches and ends, and the runs in progress."""

from __future__ import annotations

from session_records import recorded

from portal.models.session.run import Run
from portal.models.session.session import SessionState
from portal.store import Store
from portal.store.site.visits import Visits
from portal.work.run.tables.runs import RunTable


async def test_a_user_has_one_row_of_visits(store: Store) -> None:
    assert await store.visits.of_user("ada") is None
    await store.visits.set("ada", Visits(1.0, 2.5))
    await store.visits.set("barbara", Visits(7.0, 8.0))
    await store.visits.set("ada", Visits(2.5, 9.0))
    assert await store.visits.of_user("ada") == Visits(2.5, 9.0)


async def test_the_newest_launches_and_ends_of_some_kinds(store: Store) -> None:
    for number in range(6):
        at, ended = 10.0 * number, number != 5
        await store.sessions.save(
            recorded(
                id=f"s{number}", user="ada" if number else "barbara", submitted_at=at,
                work="kernel" if number == 2 else "jupyterlab", log="long",
                state=SessionState.ENDED if ended else SessionState.RUNNING,
                ended_at=100.0 - at if ended else None,
            )
        )  # fmt: skip
    launches = await store.sessions.launches("ada", ["jupyterlab", "rstudio"], limit=3)
    assert [record.id for record in launches] == ["s5", "s4", "s3"]
    assert {record.log for record in launches} == {""}
    kinds = ["jupyterlab"]
    ends = await store.sessions.launches("ada", kinds, ended_since=60.0, limit=9)
    assert [record.id for record in ends] == ["s1", "s3"]  # s4 ended at that time, not since
    assert await store.sessions.launches("ada", [], limit=9) == []


async def test_runs_that_have_not_ended_come_first(store: Store) -> None:
    for number in range(5):
        run = Run(
            id=f"{number:08x}", user="ada" if number else "barbara", name="r", source="a.py",
            folder="/f", points=1, server=f"run-{number}", environment="lab",
            created_at=float(number),
        )  # fmt: skip
        await store.table(RunTable).add_run(run)
    for number, at in ((2, 50.0), (4, 60.0)):
        await store.table(RunTable).end("ada", f"{number:08x}", at)
    runs = await store.table(RunTable).unended("ada", 50.0, 9)
    assert [int(run.id, 16) for run in runs] == [3, 1, 4]
    assert [int(run.id, 16) for run in await store.table(RunTable).unended("ada", 50.0, 1)] == [3]
