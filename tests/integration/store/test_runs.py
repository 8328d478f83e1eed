"""Runs and their points: a point has a row once it has reported."""

from __future__ import annotations

import time
from typing import Any

import pytest

from portal.errors import Conflict, InvalidRequest
from portal.models.session.run import PointState, Run, RunPoint
from portal.models.session.run_output import PointOutput, StoredOutput
from portal.store import Store
from portal.work.run.tables.curves import RunCurveTable
from portal.work.run.tables.outputs import RunOutputTable
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.runs import RunTable

ID = "5e2f3c1a"
KEY = ("ada", ID)


def run(id_: str = ID, user: str = "ada", **more: Any) -> Run:
    values = {
        "name": "rates",
        "source": "train.ipynb",
        "folder": "/home/ada/runs/rates",
        "points": 10_000,
        "at_once": 20,
        "server": f"run-{id_}",
        "environment": "lab",
        "resources": {"gpus": 1, "memory": "4G"},
        "created_at": 100.0,
    }
    return Run(**{**values, "id": id_, "user": user, **more})


def point(number: int, state: str = "running", **more: Any) -> tuple[tuple[str, str], RunPoint]:
    values = {"attempt": 1, "job": f"7_{number}", "started_at": 5.0}
    return KEY, RunPoint(number=number, state=PointState(state), **{**values, **more})


async def stored(store: Store, number: int = 0) -> RunPoint:
    return (await store.table(RunPointTable).of_run(*KEY, [number]))[number]


async def test_runs_are_their_user_s(store: Store) -> None:
    first, second = run(), run("6e2f3c1a", created_at=200.0, name="later")
    for each in (first, second, run(user="barbara")):
        await store.table(RunTable).add_run(each)
    with pytest.raises(Conflict, match="already have a run with the id '5e2f3c1a'"):
        await store.table(RunTable).add_run(run(name="other"))
    assert await store.table(RunTable).get(*KEY) == first
    assert await store.table(RunTable).get("ada", "ffffffff") is None
    assert await store.table(RunTable).of_user("ada") == ([second, first], 2)
    assert await store.table(RunTable).of_user("ada", sort="name", offset=1) == ([first], 2)
    with pytest.raises(InvalidRequest, match="cannot be sorted by 'folder'"):
        await store.table(RunTable).of_user("ada", sort="folder")
    await store.table(RunTable).remove("barbara", ID)
    assert await store.table(RunTable).of_user("barbara") == ([], 0)


async def test_runs_are_filtered(store: Store) -> None:
    living = run(source="/home/ada/work/train.ipynb")
    ended = run("6e2f3c1a", name="sweep_1", environment="torch", ended_at=300.0, created_at=110.0)
    of_course = run("7e2f3c1a", course="deep", ended_at=150.0, created_at=120.0)
    for each in (living, ended, of_course, run("8e2f3c1a", user="barbara")):
        await store.table(RunTable).add_run(each)
    await store.table(RunPointTable).save([(("ada", "6e2f3c1a"), point(3, "failed")[1])])
    await store.table(RunPointTable).save([(("barbara", "7e2f3c1a"), point(3, "failed")[1])])

    async def ids(**wanted: Any) -> list[str]:
        found, total = await store.table(RunTable).of_user("ada", sort="created_at", **wanted)
        assert total == len(found)
        return [each.id for each in found]

    assert await ids(state="living") == [ID]
    assert await ids(state="ended") == ["6e2f3c1a", "7e2f3c1a"]
    assert await ids(state="failed") == ["6e2f3c1a"]
    assert await ids(environment="torch") == ["6e2f3c1a"]
    assert await ids(space="deep") == ["7e2f3c1a"]
    assert await ids(text="WORK/") == [ID], "the source counts too"
    assert await ids(text="p_1") == ["6e2f3c1a"], "_ is no pattern"
    longest, _ = await store.table(RunTable).of_user("ada", sort="-seconds")
    assert [each.id for each in longest] == ["6e2f3c1a", "7e2f3c1a", ID]
    assert await store.table(RunTable).used("ada") == (["lab", "torch"], ["deep"])
    assert await store.table(RunTable).sources("ada", 5) == [
        "train.ipynb",
        "/home/ada/work/train.ipynb",
    ]
    assert await store.table(RunTable).sources("ada", 1) == ["train.ipynb"]


async def test_the_best_point_by_a_metric(store: Store) -> None:
    names = {"step": 1.0, "val.loss 'x' [%s]": 0.5, 'a "quoted" one': 1.0}
    await store.table(RunPointTable).save(
        [
            point(0),
            point(1, metrics=names),
            point(2, metrics={**names, "val.loss 'x' [%s]": 0.25}),
            point(3, metrics={**names, "val.loss 'x' [%s]": 0.25}),
            point(4, metrics={"other": -1.0}),
        ]
    )
    found = await store.table(RunPointTable).metric_names("ada", [ID, "ffffffff"])
    assert {id_: set(each) for id_, each in found.items()} == {ID: set(names)}
    bests = store.table(RunPointTable).bests
    assert await bests("ada", {ID: ("val.loss 'x' [%s]", True)}) == {ID: (2, 0.25)}
    assert await bests("ada", {ID: ("val.loss 'x' [%s]", False)}) == {ID: (1, 0.5)}
    assert await bests("ada", {ID: ("nothing", True), "ffffffff": ("step", True)}) == {}
    assert await bests("barbara", {ID: ("step", True)}) == {}


async def test_the_newest_run_of_a_server_counts(store: Store) -> None:
    for id_, created in (("5e2f3c1a", 100.0), ("5-e2f3c1a", 300.0), ("5e-2f3c1a", 200.0)):
        await store.table(RunTable).add_run(run(id_, server="run-5e2f3c1a", created_at=created))
    newest = await store.table(RunTable).on_server("ada", "run-5e2f3c1a")
    assert newest is not None and newest.id == "5-e2f3c1a"
    assert await store.table(RunTable).on_server("barbara", "run-5e2f3c1a") is None


async def test_its_job_and_its_end(store: Store) -> None:
    await store.table(RunTable).add_run(run())
    await store.table(RunTable).add_run(run("6e2f3c1a"))
    await store.table(RunTable).note_jobs({KEY: "12", ("ada", "6e2f3c1a"): "13"})
    await store.table(RunTable).note_jobs({})
    assert [each.job_id for each in await store.table(RunTable).living()] == ["12", "13"]
    await store.table(RunTable).end(*KEY, 500.0)
    await store.table(RunTable).end(*KEY, 900.0)
    ended = await store.table(RunTable).get(*KEY)
    assert ended is not None and ended.ended_at == 500.0
    assert [each.id for each in await store.table(RunTable).living()] == ["6e2f3c1a"]


async def test_the_newest_report_counts(store: Store) -> None:
    save = store.table(RunPointTable).save
    await save([point(0, cell=1, cells=9, metrics={"loss": 2.5}), point(1)])
    await save([point(0, cell=3, cells=9, metrics={"loss": 0.5}, started_at=8.0)])
    seen = await stored(store)
    assert (seen.cell, seen.metrics, seen.started_at) == (3, {"loss": 0.5}, 5.0)
    await save([point(0, "failed", message="ValueError: no 'x'", ended_at=9.0)])
    await save([point(0, "running", cell=4)])
    await save([point(0, "succeeded")])
    seen = await stored(store)
    assert (seen.state, seen.message) == (PointState.FAILED, "ValueError: no 'x'")
    await save([point(0, "running", attempt=2, started_at=20.0)])
    seen = await stored(store)
    assert (seen.state, seen.attempt, seen.started_at) == (PointState.RUNNING, 2, 20.0)
    assert (seen.message, seen.ended_at) == ("", None)
    await save([point(0, "succeeded", attempt=1)])
    assert (await stored(store)).state is PointState.RUNNING
    await save([])


async def test_what_was_lost_may_report(store: Store) -> None:
    await store.table(RunPointTable).save([point(0, "lost", attempt=0)])
    await store.table(RunPointTable).save([point(0, "succeeded")])
    assert (await stored(store)).state is PointState.SUCCEEDED


async def test_points_without_a_report_have_no_row(store: Store) -> None:
    await store.table(RunPointTable).save(
        [
            point(0, metrics={"loss": 1.5}),
            point(7, "failed", message="Pruned"),
            point(8, "succeeded", message="Pruned. TrialPruned: at step 3"),
        ]
    )
    other = (("barbara", ID), point(0)[1])
    await store.table(RunPointTable).save([other])
    counts = await store.table(RunPointTable).counts("ada", [ID, "ffffffff"])
    counted = {PointState.RUNNING: 1, PointState.FAILED: 1, PointState.SUCCEEDED: 1}
    assert counts == {ID: counted}
    assert await store.table(RunPointTable).counts("ada", []) == {}
    keys = await store.table(RunPointTable).keys(*KEY)
    assert [(key.number, key.state, key.pruned) for key in keys] == [
        (0, PointState.RUNNING, False),
        (7, PointState.FAILED, True),
        (8, PointState.SUCCEEDED, True),
    ]
    bare = await store.table(RunPointTable).keys(*KEY, values=False)
    assert bare == [key._replace(metrics={}, parameters={}) for key in keys]
    assert set(await store.table(RunPointTable).of_run(*KEY, [0, 1, 7])) == {0, 7}
    assert await store.table(RunPointTable).of_run(*KEY, []) == {}


async def test_old_runs_go_with_their_points(store: Store) -> None:
    for id_, ended in ((ID, 500.0), ("6e2f3c1a", 900.0), ("7e2f3c1a", None)):
        await store.table(RunTable).add_run(run(id_, ended_at=ended))
        await store.table(RunPointTable).save([(("ada", id_), point(0)[1])])
    await store.table(RunTable).add_run(run(user="barbara"))
    await store.table(RunPointTable).save([(("barbara", ID), point(0)[1])])
    assert await store.table(RunPointTable).prune(600.0) == 1
    assert [each.id for each in (await store.table(RunTable).of_user("ada", sort="name"))[0]] == [
        "6e2f3c1a",
        "7e2f3c1a",
    ]
    assert list(await store.table(RunPointTable).counts("ada", [ID, "6e2f3c1a", "7e2f3c1a"])) == [
        "6e2f3c1a",
        "7e2f3c1a",
    ]
    assert await store.table(RunPointTable).counts("barbara", [ID])


async def test_curves_are_kept_by_point(store: Store) -> None:
    save = store.table(RunCurveTable).save
    await save([(KEY, 0, 1, {"loss": [(0, 1.5), (1, 0.5)], "auc": [(0, 0.25)]})])
    await save([(KEY, 7, 2, {"loss": [(0, 9.0)]}), (("barbara", ID), 1, 1, {"loss": [(5, 5.0)]})])
    assert await store.table(RunCurveTable).numbers(*KEY) == {0, 7}
    of_metric = store.table(RunCurveTable).of_metric
    assert await of_metric(*KEY, "loss", [0, 1, 7]) == {0: [(0, 1.5), (1, 0.5)], 7: [(0, 9.0)]}
    assert await of_metric(*KEY, "auc", [0, 7]) == {0: [(0, 0.25)]}
    assert await of_metric(*KEY, "loss", []) == {}
    points = {ID: (0, "auc"), "ffffffff": (0, "auc")}
    assert await store.table(RunCurveTable).of_points("ada", points) == {ID: [(0, 0.25)]}
    assert await store.table(RunCurveTable).of_points("ada", {ID: (7, "auc")}) == {}
    await save([(KEY, 7, 1, {"loss": [(0, 1.0)]}), (KEY, 0, 1, {"loss": [(0, 2.0)]})])
    assert await of_metric(*KEY, "loss", [0, 7]) == {0: [(0, 2.0)], 7: [(0, 9.0)]}
    await save([])


async def test_an_ended_run_is_deleted_with_all_of_it(store: Store) -> None:
    keys = (KEY, ("barbara", ID), ("ada", "6e2f3c1a"))
    for user, id_ in keys:
        await store.table(RunTable).add_run(run(id_, user=user))
        await store.table(RunPointTable).save([((user, id_), point(0)[1])])
        await store.table(RunCurveTable).save([((user, id_), 0, 1, {"loss": [(0, 1.0)]})])
    assert await store.table(RunPointTable).remove(*KEY) == 0, "it has not ended"
    await store.table(RunTable).end(*KEY, 500.0)
    assert await store.table(RunPointTable).remove(*KEY) == 1
    assert await store.table(RunTable).get(*KEY) is None
    assert await store.table(RunPointTable).keys(*KEY) == []
    assert await store.table(RunCurveTable).numbers(*KEY) == set()
    for key in keys[1:]:
        assert await store.table(RunTable).get(*key) is not None
        assert len(await store.table(RunPointTable).keys(*key)) == 1
        assert await store.table(RunCurveTable).numbers(*key) == {0}


async def test_ten_thousand_points_are_read_quickly(store: Store) -> None:
    rows = [point(number, metrics={"loss": float(number)}) for number in range(10_000)]
    await store.table(RunPointTable).save(rows)
    began = time.perf_counter()
    assert len(await store.table(RunPointTable).keys(*KEY)) == 10_000
    assert time.perf_counter() - began < 5


async def test_the_newest_attempt_s_output_is_kept_as_long_as_the_run(store: Store) -> None:
    await store.table(RunTable).add_run(run(keep_failed=True))
    for attempt, log in ((1, "first"), (3, "third \0 \ud800"), (2, "second")):
        saved = StoredOutput(attempt=attempt, at=5.0, output=PointOutput.trusted(log=log))
        await store.table(RunOutputTable).save(KEY, 2, saved)
    found = await store.table(RunOutputTable).get(KEY, 2)
    assert found is not None and (found.attempt, found.output.log) == (3, "third \ufffd \ufffd")
    assert await store.table(RunOutputTable).get(KEY, 1) is None
    kept_run = await store.table(RunTable).get(*KEY)
    assert kept_run is not None and kept_run.keep_failed is True
    await store.table(RunTable).end(*KEY, 102.0)
    assert await store.table(RunPointTable).prune(103.0) == 1
    assert await store.table(RunOutputTable).get(KEY, 2) is None
