"""Items of the cluster page from a snapshot: states, whose they are, and who may know."""

from __future__ import annotations

import json
from typing import Any

import pytest
from clusters import ADA, GRACE, NOW, STRANGER, job, node, pool, reading, record, snapshot, waiting
from fake_watcher import ToldCluster, ToldTelemetry

from portal.dashboard import Dashboard
from portal.dashboard.builder import Builder, Items
from portal.dashboard.nodes import node_item, pools_by_index
from portal.dashboard.view import Placed
from portal.models.cluster.cluster import ClusterSnapshot, GpuPool, JobState
from portal.models.cluster.dashboard import page_facts
from portal.models.cluster.gpu import GpuReading, GpuState
from portal.paths import data_path
from portal.slurm.reasons import node_words

WORK = ("work", "work_name", "work_id")
NAMES = ("user", "name", "account", "environment", "session_id", *WORK)


def built(told: ClusterSnapshot, *sessions: Any, readings: tuple[GpuReading, ...] = ()) -> Items:
    telemetry = ToldTelemetry(*readings)
    return Builder().build(told, sessions, telemetry.readings(told), telemetry.busy)


def states(items: Items) -> list[str]:
    return [str(gpu.state) for gpu in items.gpus.values()]


# -- GPUs ----------------------------------------------------------------------------------


def test_free_allocated_busy_and_idle() -> None:
    told = snapshot(
        node("gpu01", pool(4, 0, 1, 2), state="MIXED"), job("7", held={"gpu01": (0, 1, 2)})
    )
    items = built(told, readings=(reading("gpu01", 0, 88.0), reading("gpu01", 1, 0.0)))
    assert states(items) == ["busy", "idle", "allocated", "free"]
    assert [gpu.job_id for gpu in items.gpus.values()] == ["7", "7", "7", None]
    assert list(items.gpus) == ["gpu01/0", "gpu01/1", "gpu01/2", "gpu01/3"]


def test_a_reading_without_utilisation_leaves_the_use_unknown() -> None:
    told = snapshot(node("gpu01", pool(1, 0)), job("7", held={"gpu01": (0,)}))
    mig = reading("gpu01", 0, None, mig=True, memory_total=40960)
    (gpu,) = built(told, readings=(mig,)).gpus.values()
    assert (gpu.state, gpu.utilization, gpu.memory_used) == (GpuState.ALLOCATED, None, None)
    assert (gpu.memory_total, gpu.source) == (40960, "dcgm")


@pytest.mark.parametrize(
    ("state", "unheld"),
    [
        ("IDLE", "free"),
        ("MIXED+PLANNED", "free"),
        ("IDLE+DRAIN", "drained"),
        ("MIXED+DRAIN", "drained"),
        ("IDLE+MAINT", "drained"),
        ("DOWN", "down"),
        ("DOWN+DRAIN", "down"),
        ("IDLE+NOT_RESPONDING", "down"),
        ("IDLE+POWERED_DOWN", "off"),
        ("IDLE+CLOUD+POWERING_DOWN", "off"),
        ("MIXED+NOT_RESPONDING+POWERING_UP", "off"),
        ("DOWN+POWERED_DOWN", "down"),
        ("IDLE+DRAIN+POWERED_DOWN", "drained"),
        ("UNKNOWN", "unknown"),
    ],
)
def test_a_gpu_that_nobody_holds_is_what_its_node_is(state: str, unheld: str) -> None:
    (gpu,) = built(snapshot(node("gpu01", pool(1), state=state))).gpus.values()
    assert gpu.state == unheld


@pytest.mark.parametrize("state", GpuState)
def test_the_page_has_a_word_and_a_colour_for_each_state(state: GpuState) -> None:
    static = data_path("static")
    assert f"  {state}: {{ word: " in (static / "js/words.js").read_text()
    # Its own rule, not only that of its part of the bar (".bar-part.gpu-off").
    assert f"\n.gpu-{state} {{" in (static / "css/dashboard.css").read_text()


def test_a_gpu_of_a_drained_node_that_a_job_holds_stays_held() -> None:
    told = snapshot(
        node("gpu01", pool(3, 0, 1), state="MIXED+DRAIN", reason="bad fan"),
        job("7", held={"gpu01": (0, 1)}),
    )
    items = built(told, readings=(reading("gpu01", 0, 50.0),))
    assert states(items) == ["busy", "allocated", "drained"]
    assert items.nodes["gpu01"].reason == "bad fan"
    assert not items.nodes["gpu01"].usable


def test_a_gpu_of_a_node_that_is_down_still_names_its_job() -> None:
    told = snapshot(node("gpu01", pool(1, 0), state="DOWN"), job("7", held={"gpu01": (0,)}))
    (gpu,) = built(told).gpus.values()
    assert (gpu.state, gpu.job_id) == (GpuState.DOWN, "7")


@pytest.mark.parametrize(
    ("used", "indexes", "expected"),
    [
        (0, None, ["free"] * 3),
        (1, None, ["unknown"] * 3),  # any of them could be the free one
        (3, None, ["allocated"] * 3),
        (2, (0, 2), ["allocated", "free", "allocated"]),
        (2, (), ["unknown"] * 3),  # "IDX:N/A" beside a count is no answer
    ],
)
def test_where_slurm_does_not_say_which(
    used: int, indexes: tuple[int, ...] | None, expected: list[str]
) -> None:
    some = GpuPool(type="t4", count=3, used=used, used_indexes=indexes)
    assert states(built(snapshot(node("gpu01", some)))) == expected


def test_a_held_gpu_whose_job_is_not_known_is_allocated_to_nobody() -> None:
    items = built(snapshot(node("gpu01", pool(2, 1)), job("7", nodes=("gpu01",), gpus=1)))
    assert states(items) == ["free", "allocated"]
    assert items.gpus["gpu01/1"].job_id is None


def test_several_types_on_a_node_are_counted_through() -> None:
    mixed = node("gpu01", pool(2, 1, type="v100"), pool(3, 2, 4, type="t4"))
    items = built(snapshot(mixed))
    assert [gpu.type for gpu in items.gpus.values()] == ["v100", "v100", "t4", "t4", "t4"]
    assert states(items) == ["free", "allocated", "allocated", "free", "allocated"]
    assert items.nodes["gpu01"].gpu_types == ("v100", "t4")


def test_indexes_in_use_tell_the_order_of_the_types() -> None:
    other = node("gpu01", pool(2, 3, type="v100"), pool(3, 0, type="t4"))
    assert [one.type for one in pools_by_index(other)] == ["t4", "t4", "t4", "v100", "v100"]


# -- jobs ----------------------------------------------------------------------------------


def test_a_session_is_joined_by_job_id_and_account() -> None:
    told = snapshot(
        node("gpu01", pool(2, 0, 1)),
        job("7", held={"gpu01": (0,)}),
        job("8", user="eve", held={"gpu01": (1,)}),
    )
    # Job 8 was once a session of barbara's; the id has come again.
    items = built(told, record("s1", "7"), record("s2", "8", user="barbara"))
    session, foreign = items.jobs["7"], items.jobs["8"]
    assert (session.portal, session.user, session.environment) == (True, "ada", "pytorch")
    assert session.session_id == "s1"
    assert (foreign.portal, foreign.user, foreign.session_id) == (False, "eve", None)
    assert items.gpus["gpu01/0"].environment == "pytorch"
    assert items.gpus["gpu01/1"].environment is None
    assert items.sessions.keys() == {"7"}


def test_the_owner_of_a_session_is_the_hubs_user_not_the_account() -> None:
    told = snapshot(job("7", user="u1234"))
    items = built(told, record("s1", "7", user="ada", account="u1234"))
    assert items.jobs["7"].user == "ada"
    assert items.owned.keys() == {"ada"}


def test_a_session_keeps_its_name_while_its_job_is_still_ending() -> None:
    builder, busy = Builder(), ToldTelemetry().busy
    builder.build(snapshot(job("7")), [record("s1", "7")], {}, busy)
    items = builder.build(snapshot(job("7", state=JobState.COMPLETING)), [], {}, busy)
    assert items.jobs["7"].session_id == "s1"
    later = job("7", submit_time=NOW)  # the id again, for another job
    assert builder.build(snapshot(later), [], {}, busy).jobs["7"].session_id is None


def test_a_waiting_job_in_words() -> None:
    told = snapshot(
        waiting("1", priority=5, start_time=NOW + 60),
        waiting("2", priority=9, reason="Resources", start_time=NOW - 60),
        waiting("3", priority=0, reason="JobHeldUser", start_time=NOW + 60),
    )
    items = built(told)
    jobs = Placed(items.jobs, items.positions)
    assert jobs["2"].words == "waiting for resources"
    assert (jobs["1"].position, jobs["2"].position, jobs["3"].position) == (2, 1, None)
    assert jobs["1"].expected_start == NOW + 60
    assert jobs["2"].expected_start is None  # a guess for the past is no guess
    assert (jobs["3"].held, jobs["3"].expected_start) == (True, None)
    assert {job.start_time for job in jobs.values()} == {None}
    assert {job.end_time for job in jobs.values()} == {None}


def test_jobs_that_are_over_are_not_shown() -> None:
    told = snapshot(job("1"), job("2", state=JobState.COMPLETED), job("3", state=JobState.UNKNOWN))
    assert built(told).jobs.keys() == {"1", "3"}


def test_counts() -> None:
    told = snapshot(
        node("gpu01", pool(4, 0), state="MIXED"),
        node("gpu02", pool(2, type="t4"), state="DOWN"),
        job("7", held={"gpu01": (0,)}),
        job("8", user="eve", nodes=("gpu01",)),
        waiting("9"),
    )
    summary = built(told, record("s1", "7"), record("s2", "9")).summary
    assert summary.gpus == {"allocated": 1, "free": 3, "down": 2}
    assert summary.gpus_by_type == {"v100": {"allocated": 1, "free": 3}, "t4": {"down": 2}}
    assert (summary.nodes, summary.nodes_usable) == (2, 1)
    assert (summary.jobs_running, summary.jobs_pending) == (2, 1)
    assert (summary.sessions_running, summary.sessions_pending) == (1, 1)


def test_a_nodes_state_in_words() -> None:
    words = {
        "IDLE": "free",
        "MIXED": "partly in use",
        "IDLE+DRAIN": "drained: no jobs start",
        "MIXED+DRAIN": "draining: running jobs continue, no new jobs start",
        "DOWN+NOT_RESPONDING": "does not answer",
        "IDLE+MAINT": "in maintenance",
        "IDLE+RESERVED": "reserved",
        "SOMETHING_NEW": "SOMETHING_NEW",
    }
    assert {state: node_words(state) for state in words} == words


# -- who may know --------------------------------------------------------------------------


@pytest.fixture
async def dashboard() -> Dashboard:
    told = snapshot(
        node("gpu01", pool(3, 0, 1)),
        job("7", held={"gpu01": (0,)}),
        job("8", user="eve", held={"gpu01": (1,)}),
        waiting("9", user="eve"),
    )
    one = Dashboard(cluster=ToldCluster(told), telemetry=ToldTelemetry())
    one._sessions._living.put((record("s1", "7"),))
    await one.refreshed()
    return one


def test_others_jobs_are_shown_without_names(dashboard: Dashboard) -> None:
    seen = {job.id: job for job in dashboard.jobs_for(STRANGER)}
    assert seen.keys() == {"7", "8", "9"}
    for one in seen.values():
        assert [getattr(one, name) for name in NAMES] == [None] * len(NAMES)
        assert not one.mine
    assert seen["7"].portal
    for gpu in dashboard.gpus_for(STRANGER):
        assert (gpu.user, gpu.environment, gpu.mine) == (None, None, False)
    assert dashboard.job_for(STRANGER, "8") == seen["8"]


@pytest.mark.parametrize(
    ("work", "options", "expected"),
    [
        ("jupyterlab", {"gpus": 1}, ("session", None, None)),
        ("run", {"run": {"id": "r1", "name": "rates"}}, ("run", "rates", "r1")),
        ("kernel", {"kernel": {"id": "k1", "name": "python3"}}, ("kernel", "python3", "k1")),
        ("tensorboard", {"tensorboard": ["/logs"]}, ("session", None, None)),
        ("of another version", {}, ("session", None, None)),
    ],
)
def test_a_job_says_what_runs_in_its_session(work: str, options: Any, expected: Any) -> None:
    told = snapshot(node("gpu01", pool(1, 0)), job("7", held={"gpu01": (0,)}), job("8"))
    items = built(told, record("s1", "7", work=work, options=options)).jobs
    assert tuple(getattr(items["7"], name) for name in WORK) == expected
    assert tuple(getattr(items["8"], name) for name in WORK) == (None, None, None)


def test_ones_own_are_marked_and_named(dashboard: Dashboard) -> None:
    seen = {job.id: job for job in dashboard.jobs_for(ADA)}
    assert (seen["7"].mine, seen["7"].name, seen["7"].session_id) == (True, "name-of-7", "s1")
    assert (seen["8"].mine, seen["8"].user) == (False, None)
    assert [gpu.mine for gpu in dashboard.gpus_for(ADA)] == [True, False, False]
    own = dashboard.own(ADA)
    assert own is not None
    assert (own.gpus.keys(), own.jobs.keys()) == ({"gpu01/0"}, {"7"})
    assert dashboard.job_for(ADA, "7") == seen["7"]


def test_who_may_read_jobs_sees_all_names(dashboard: Dashboard) -> None:
    seen = {job.id: job for job in dashboard.jobs_for(GRACE)}
    assert [seen[id_].user for id_ in ("7", "8", "9")] == ["ada", "eve", "eve"]
    assert not any(one.mine for one in seen.values())
    assert [gpu.user for gpu in dashboard.gpus_for(GRACE)] == ["ada", "eve", None]


def test_an_admin_of_the_hub_without_the_scope_sees_no_names(dashboard: Dashboard) -> None:
    bare = GRACE.model_copy(update={"scopes": frozenset()})
    assert {job.user for job in dashboard.jobs_for(bare)} == {None}


async def test_the_board_has_names_only_for_those_who_may(dashboard: Dashboard) -> None:
    named, unnamed = await dashboard.board(GRACE), await dashboard.board(ADA)
    assert b'"eve"' in named
    assert b"eve" not in unnamed
    assert b"pytorch" not in unnamed
    assert await dashboard.board(STRANGER) is unnamed  # made once for all of them


# -- what the page's script is told ----------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "drained", "down"),
    [
        ("IDLE", False, False),
        ("IDLE+DRAIN", True, False),
        ("DRAINING", True, False),
        ("DOWN", False, True),
        ("DOWN*", False, True),
        ("DOWN+DRAIN+NOT_RESPONDING", True, True),
        ("POWERED_DOWN", False, False),
    ],
)
def test_a_node_that_can_be_resumed(state: str, drained: bool, down: bool) -> None:
    (item,) = built(snapshot(node("gpu01", state=state))).nodes.values()
    assert (item.drained, item.down) == (drained, down)


def test_what_an_event_leaves_out_is_in_the_pages_defaults() -> None:
    told = snapshot(node("gpu01", pool(2, 0), state="MIXED"), job("7", held={"gpu01": (0,)}))
    items = built(told)
    facts = json.loads(json.dumps(page_facts()))
    for name, found in (("node", items.nodes), ("gpu", items.gpus), ("job", items.jobs)):
        for item in found.values():
            definition_in = json.loads(item.model_dump_json(exclude_defaults=True))
            whole = facts["defaults"][name] | definition_in
            assert whole == json.loads(item.model_dump_json())


def test_the_page_knows_which_of_slurms_states_mean_what() -> None:
    states = page_facts()["states"]
    assert "suspended" in states["running"] and "requeue_hold" in states["pending"]
    assert not {*states["running"], *states["pending"]} & {"completed", "unknown"}


def test_a_node_says_how_many_shares_of_its_gpus_are_held() -> None:
    shards = GpuPool(type="shard.t4", count=8, used=4, each=4, uncounted=1)
    quarters = GpuPool(type="mps.t4", count=8, used=3, each=4)
    item = node_item(node("gpu01", pool(2, 0, type="t4"), shares=(shards, quarters)))
    assert [tuple(share.model_dump().values()) for share in item.shares] == [
        ("shard.t4", 8, 4, True),
        ("mps.t4", 8, 3, False),
    ]
    assert (item.gpus, item.gpus_allocated, item.gpu_types) == (2, 1, ("t4",))
