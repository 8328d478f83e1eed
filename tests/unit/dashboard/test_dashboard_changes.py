"""From one version to the next: what is news, to whom, and how a stream brings it."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from clusters import ADA, GRACE, NOW, STRANGER, job, node, pool, reading, record, snapshot, waiting
from fake_watcher import ToldCluster, ToldTelemetry

from portal.dashboard import Dashboard
from portal.dashboard import changes as changes_module
from portal.dashboard import dashboard as dashboard_module
from portal.dashboard.streams import EventStream
from portal.errors import SlurmUnavailable, TooManyRequests, Unavailable
from portal.models.cluster.cluster import ClusterSnapshot
from portal.models.cluster.dashboard import Board, Changes
from portal.models.person import Person


class Event:
    """One server-sent event, read as a browser does."""

    def __init__(self, text: str) -> None:
        assert "\r" not in text  # it would end a line too
        fields = dict(line.split(": ", 1) for line in text.split("\n") if line[:1] != ":")
        self.kind, self.id = fields.get("event", ""), fields.get("id", "")
        self.changes = Changes.model_validate_json(fields["data"]) if "data" in fields else None
        self.data = json.loads(fields.get("data", "{}"))


async def events(stream: EventStream, number: int) -> list[Event]:
    """The next events, without comments and retry."""
    found: list[Event] = []
    while len(found) < number:
        frame = await asyncio.wait_for(anext(stream), 60)
        found += [Event(part) for part in frame.decode().split("\n\n") if "event: " in part]
    assert len(found) == number, [one.kind for one in found]
    return found


async def nothing_more(stream: EventStream) -> None:
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    waiting.cancel()


def cluster_of(*used: int, jobs: tuple[Any, ...] = (), **more: Any) -> ClusterSnapshot:
    return snapshot(node("gpu01", pool(4, *used)), node("gpu02", pool(4)), *jobs, **more)


@pytest.fixture
async def dashboard() -> AsyncIterator[Dashboard]:
    told = cluster_of(0, jobs=(job("7", held={"gpu01": (0,)}), waiting("9", "eve")))
    one = Dashboard(cluster=ToldCluster(told), telemetry=ToldTelemetry())
    one._sessions._living.put((record("s1", "7"),))
    await one.refreshed()
    yield one


async def tell(dashboard: Dashboard, told: ClusterSnapshot | SlurmUnavailable) -> None:
    dashboard.cluster.told = told
    await dashboard.refreshed()


def since(dashboard: Dashboard, version: int, person: Person = GRACE) -> list[Changes]:
    found = dashboard.changes_since(person, dashboard.stream, version)
    assert found is not None
    return found


# -- what is news --------------------------------------------------------------------------


async def test_nothing_new_is_a_new_version_with_its_age_only(dashboard: Dashboard) -> None:
    before = dashboard.view
    assert before is not None
    told = dashboard.cluster.told.model_copy(update={"taken_at": NOW + 5})
    await tell(dashboard, told)
    (step,) = since(dashboard, before.version)
    assert (step.version, step.taken_at) == (before.version + 1, NOW + 5)
    assert not (step.nodes or step.gpus or step.jobs)
    assert dashboard.view is not None
    for name in ("nodes", "gpus", "jobs", "unnamed_gpus", "unnamed_jobs"):
        old, new = (getattr(one, name) for one in (before, dashboard.view))
        old, new = getattr(old, "bare", old), getattr(new, "bare", new)
        assert all(new[key] is old[key] for key in old)  # the same objects again


async def test_what_came_what_changed_and_what_is_gone(dashboard: Dashboard) -> None:
    told = snapshot(node("gpu01", pool(4, 0, 1), state="MIXED"), job("8", held={"gpu01": (0, 1)}))
    await tell(dashboard, told)
    (step,) = since(dashboard, 1)
    assert step.nodes.keys() == {"gpu01"}
    assert step.gpus.keys() == {"gpu01/0", "gpu01/1"}  # the first one has another job now
    assert step.jobs.keys() == {"8"}
    assert step.gone_nodes == ("gpu02",)
    assert set(step.gone_gpus) == {f"gpu02/{index}" for index in range(4)}
    assert set(step.gone_jobs) == {"7", "9"}


async def test_noise_of_telemetry_is_no_news(dashboard: Dashboard) -> None:
    telemetry = dashboard.telemetry

    async def now(load: float, used: int) -> list[str]:
        version = dashboard.view.version
        telemetry.told = (reading("gpu01", 0, load, memory_used=used, memory_total=40000),)
        await dashboard.refreshed()
        return list(since(dashboard, version)[0].gpus)

    assert await now(82.0, 20_000) == ["gpu01/0"]
    shown = dashboard.view.gpus["gpu01/0"]
    assert (shown.utilization, shown.memory_used, shown.state) == (80.0, 20_000, "busy")
    for load, used in ((84.9, 20_300), (77.0, 19_700), (83.0, 20_399)) * 5:
        assert await now(load, used) == []
    assert await now(91.0, 20_000) == ["gpu01/0"]  # a large move is news at once
    assert dashboard.view.gpus["gpu01/0"].utilization == 90.0
    assert await now(90.0, 21_000) == ["gpu01/0"]
    told = [await now(96.0, 21_000) for _ in range(12)]  # a small one within a minute
    assert sorted(told) == [[]] * 11 + [["gpu01/0"]]
    assert dashboard.view.gpus["gpu01/0"].utilization == 95.0
    assert await now(2.0, 21_000) == ["gpu01/0"]
    assert dashboard.view.gpus["gpu01/0"].state == "idle"
    for _ in range(12):
        assert await now(4.0, 21_000) == []
    telemetry.told = ()
    await dashboard.refreshed()
    gone = dashboard.view.gpus["gpu01/0"]
    assert (gone.utilization, gone.memory_used, gone.state) == (None, None, "allocated")


async def test_a_new_place_in_the_queue_is_news_for_its_owner_only(dashboard: Dashboard) -> None:
    queue = [waiting(str(id_), "eve", priority=100 - id_) for id_ in range(10, 15)]
    await tell(dashboard, cluster_of(jobs=tuple(queue)))
    stream = dashboard.events(Person(name="eve"), dashboard.view.id)
    await events(stream, 1)  # her own, all of it
    await tell(dashboard, cluster_of(jobs=tuple(queue[1:])))
    (step,) = since(dashboard, 2)
    assert (step.jobs, step.gone_jobs) == ({}, ("10",))
    change, own = await events(stream, 2)
    assert change.changes.gone_jobs == ("10",)
    assert {id_: one.position for id_, one in own.changes.jobs.items()} == {
        "11": 1, "12": 2, "13": 3, "14": 4,
    }  # fmt: skip
    assert {one.id: one.position for one in dashboard.jobs_for(STRANGER)}["14"] == 4


async def test_changes_on_the_board_make_the_next_board(dashboard: Dashboard) -> None:
    board = Board.model_validate_json(await dashboard.board(GRACE))
    nodes, gpus = dict(board.nodes), dict(board.gpus)
    held = {"gpu02": (1, 2)}
    await tell(dashboard, cluster_of(3, jobs=(job("8", held={"gpu01": (3,)}),)))
    await tell(
        dashboard,
        snapshot(node("gpu02", pool(4, 1, 2), state="MIXED+DRAIN"), job("9", held=held)),
    )
    for step in since(dashboard, board.version):
        nodes.update(step.nodes)
        gpus.update(step.gpus)
        for name in step.gone_nodes:
            del nodes[name]
        for key in step.gone_gpus:
            del gpus[key]
    after = Board.model_validate_json(await dashboard.board(GRACE))
    assert (nodes, gpus) == (after.nodes, after.gpus)


async def test_when_nearly_everything_is_new_one_begins_anew(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = dashboard.events(GRACE, dashboard.view.id)
    monkeypatch.setattr(changes_module, "_MOST", 3)
    await tell(dashboard, cluster_of(0, 1, 2, 3))
    (event,) = await events(stream, 1)
    assert (event.kind, event.id) == ("reset", f"{dashboard.stream}-2")
    assert dashboard.changes_since(GRACE, dashboard.stream, 1) is None
    assert dashboard.changes_since(GRACE, dashboard.stream, 2) == []


async def test_after_a_fault_of_ours_one_begins_anew(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = dashboard.events(GRACE, dashboard.view.id)

    def broken(*_: object) -> None:
        raise RuntimeError("a fault")

    with monkeypatch.context() as patched:
        patched.setattr(dashboard_module, "step", broken)
        with pytest.raises(RuntimeError):
            await tell(dashboard, cluster_of(0, 1))  # job 7 is gone, and nobody is told
    await tell(dashboard, cluster_of(0, 1))
    (event,) = await events(stream, 1)
    assert (event.kind, event.id) == ("reset", dashboard.view.id)
    assert "7" not in dashboard.view.jobs
    await tell(dashboard, cluster_of(0))
    assert (await events(stream, 1))[0].kind == "change"


async def test_a_caller_that_goes_away_leaves_the_refresh_whole(dashboard: Dashboard) -> None:
    dashboard.cluster.told = cluster_of(0, 1)
    for _ in range(20):
        going = asyncio.create_task(dashboard.refreshed())
        await asyncio.sleep(0)
        going.cancel()
    await dashboard.refreshed()
    steps = since(dashboard, 1)
    assert [one.version for one in steps] == list(range(2, dashboard.view.version + 1))
    assert set(steps[0].gone_jobs) == {"7", "9"}


async def test_slurm_away_keeps_everything_and_says_so(dashboard: Dashboard) -> None:
    before = dashboard.view
    stream = dashboard.events(GRACE, before.id)
    words = "Slurm does not answer."
    await tell(dashboard, dashboard.cluster.told.model_copy(update={"error": words}))
    (event,) = await events(stream, 1)
    assert event.data["error"] == words
    assert event.changes.taken_at == NOW
    assert not (event.changes.gone_jobs or event.changes.jobs or event.changes.gpus)
    assert dashboard.view.jobs == before.jobs
    assert dashboard.view.version == before.version + 1
    await tell(dashboard, dashboard.cluster.told.model_copy(update={"error": ""}))
    (event,) = await events(stream, 1)
    assert event.changes.error == ""


async def test_before_the_first_answer_there_is_no_view() -> None:
    away = ToldCluster(SlurmUnavailable("Slurm does not answer."))
    dashboard = Dashboard(cluster=away, telemetry=ToldTelemetry())
    await dashboard.refreshed()
    assert dashboard.view is None
    assert dashboard.error == "Slurm does not answer."
    assert (list(dashboard.jobs_for(GRACE)), dashboard.own(GRACE)) == ([], None)
    with pytest.raises(SlurmUnavailable, match="does not answer"):
        await dashboard.board(GRACE)
    stream = dashboard.events(GRACE, None)
    await tell(dashboard, cluster_of())
    (event,) = await events(stream, 1)  # and then it comes
    assert event.changes.summary.nodes == 2


# -- streams -------------------------------------------------------------------------------


async def test_everyone_without_names_gets_the_same_bytes(dashboard: Dashboard) -> None:
    people = [Person(name=f"person{number}") for number in range(5)]
    streams = [dashboard.events(person, dashboard.view.id) for person in people]
    for stream in streams:
        await anext(stream)  # retry
    await tell(dashboard, cluster_of(0, 1, jobs=(job("8", "eve", held={"gpu01": (0, 1)}),)))
    frames = [await anext(stream) for stream in streams]
    assert len({id(frame) for frame in frames}) == 1
    assert b'"eve"' not in frames[0]
    assert b"name-of" not in frames[0]
    assert frames[0].startswith(b"event: change\nid: " + dashboard.view.id.encode() + b"\n")
    assert frames[0].endswith(b"\n\n")


async def test_names_come_to_their_owner_and_to_those_who_may(dashboard: Dashboard) -> None:
    ada, grace = (dashboard.events(person, dashboard.view.id) for person in (ADA, GRACE))
    (own,) = await events(ada, 1)  # whoever comes back gets all that is theirs
    assert (own.kind, own.changes.jobs["7"].mine) == ("own", True)
    mine = job("8", "ada", held={"gpu01": (1,)})
    theirs = job("5", "eve", held={"gpu01": (2,)})
    await tell(dashboard, cluster_of(1, 2, jobs=(mine, theirs)))
    change, own = await events(ada, 2)
    assert {id_: one.user for id_, one in change.changes.jobs.items()} == {"8": None, "5": None}
    assert own.changes.jobs["8"].name == "name-of-8"
    assert own.changes.gpus.keys() == {"gpu01/1"}
    assert own.changes.gpus["gpu01/1"].mine
    (change,) = await events(grace, 1)
    assert {one.user for one in change.changes.jobs.values()} == {"ada", "eve"}


async def test_a_hostile_name_stays_inside_its_event(dashboard: Dashboard) -> None:
    stream = dashboard.events(GRACE, dashboard.view.id)
    name = "x\n\nevent: reset\ndata: {}\r\n\r\n</script><b>\u2028"
    await tell(dashboard, cluster_of(jobs=(job("8", name=name),)))
    (event,) = await events(stream, 1)
    assert event.changes.jobs["8"].name == name


async def test_a_break_is_caught_up_with(dashboard: Dashboard) -> None:
    last = dashboard.view.id
    for used in range(1, 4):
        await tell(dashboard, cluster_of(*range(used)))
    stream = dashboard.events(GRACE, last)
    found = await events(stream, 3)
    assert [one.id for one in found] == [f"{dashboard.stream}-{version}" for version in (2, 3, 4)]
    assert [list(one.changes.gpus) for one in found[1:]] == [["gpu01/1"], ["gpu01/2"]]
    await nothing_more(stream)


@pytest.mark.parametrize("last", [None, "", "nonsense", "abc-1", "{stream}-99"])
async def test_who_cannot_catch_up_begins_anew(dashboard: Dashboard, last: str | None) -> None:
    await tell(dashboard, cluster_of(0))
    stream = dashboard.events(GRACE, last and last.format(stream=dashboard.stream))
    (event,) = await events(stream, 1)
    assert (event.kind, event.id) == ("reset", dashboard.view.id)
    await nothing_more(stream)


async def test_the_last_steps_are_kept_and_no_more(dashboard: Dashboard) -> None:
    for _ in range(70):
        await dashboard.refreshed()
    assert len(since(dashboard, 11)) == 60
    assert dashboard.changes_since(GRACE, dashboard.stream, 10) is None
    assert dashboard.changes_since(GRACE, "another", 70) is None


async def test_a_slow_viewer_begins_anew_and_holds_up_nobody(dashboard: Dashboard) -> None:
    slow, quick = (dashboard.events(GRACE, dashboard.view.id) for _ in range(2))
    for used in range(30):
        await tell(dashboard, cluster_of(*range(used % 4)))
        assert (await events(quick, 1))[0].kind == "change"
    assert slow._queue.qsize() <= 9
    kinds = [one.kind for one in await events(slow, slow._queue.qsize())]
    assert kinds[0] == "reset"


async def test_too_many_streams_are_refused(dashboard: Dashboard) -> None:
    dashboard.max_streams_each, dashboard.max_streams = 2, 3
    mine = [dashboard.events(ADA, None) for _ in range(2)]
    with pytest.raises(TooManyRequests, match="2 live pages"):
        dashboard.events(ADA, None)
    other = dashboard.events(STRANGER, None)
    with pytest.raises(Unavailable, match="Too many"):
        dashboard.events(GRACE, None)
    mine[0].close()
    dashboard.events(ADA, None).close()
    assert dashboard.streams == 2
    with pytest.raises(StopAsyncIteration):
        await anext(mine[0])
    del other, mine  # whoever forgets to close one does not keep its place for ever
    gc.collect()
    assert dashboard.streams == 0


async def test_a_comment_keeps_a_quiet_stream_open() -> None:
    dashboard = Dashboard(
        cluster=ToldCluster(cluster_of()), telemetry=ToldTelemetry(), heartbeat=0.02
    )
    await dashboard.refreshed()
    stream = dashboard.events(GRACE, dashboard.view.id)
    assert await anext(stream) == b"retry: 2000\n\n"
    assert (await anext(stream)).startswith(b": ")


async def test_a_waiting_stream_ends_when_it_is_closed(dashboard: Dashboard) -> None:
    stream = dashboard.events(GRACE, dashboard.view.id)
    await anext(stream)
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    stream.close()
    with pytest.raises(StopAsyncIteration):
        await asyncio.wait_for(waiting, 60)
