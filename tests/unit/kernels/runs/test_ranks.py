"""What ranks of a run's script find out about each other: bad nodes, the network, stacks."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from portal_session.runs.execution.outcome import Outcome
from portal_session.runs.ranks import follower, preflight, stall
from portal_session.runs.ranks.layout import Layout
from portal_session.runs.ranks.lead import LeadExecution
from portal_session.runs.ranks.member import LOOKS, log_name, pauses, variables
from portal_session.runs.ranks.network import Meeting, free_port, interface_to, trial
from portal_session.runs.ranks.preflight import Exclusions, refusal, unfit_nodes
from portal_session.runs.ranks.stall import Activity, Watch
from portal_session.runs.ranks.team import (
    ALIVE,
    END,
    EXCLUDE,
    HERE,
    OVER,
    SPEAKS,
    STACK,
    STACKS,
    STARTED,
    Team,
)

ENVIRON = {
    "PORTAL_TEAM": "/home/ada/.portal/ranks/7",
    "PORTAL_RANKS_ON_NODE": "2",
    "PORTAL_SPARE_NODES": "1",
    "SLURM_PROCID": "3",
    "SLURM_NTASKS": "4",
    "SLURM_LOCALID": "1",
    "SLURMD_NODENAME": "gpu02",
}
FRAMES = """Current thread 0x00007f0000000000 (most recent call first):
  File "/usr/lib/python3/dist-packages/torch/distributed/c10d.py", line 1324 in all_reduce
  File "/home/ada/train.py", line 12 in step
  File "/home/ada/train.py", line 30 in <module>
"""


def layout(place: Path, rank: int = 0, size: int = 4, spare: int = 1) -> Layout:
    return Layout(place, rank, size, rank % 2, 2, f"gpu0{rank // 2 + 1}", spare)


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return Team(layout(tmp_path))


def here(**of_ranks: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """What four ranks on two nodes say, with more of ``r2`` and so on."""
    return {
        rank: {
            "node": f"gpu0{rank // 2 + 1}",
            "skew": None if rank % 2 else 0.01,
            **of_ranks.get(f"r{rank}", {}),
        }
        for rank in range(4)
    }


def test_the_layout_is_srun_s() -> None:
    assert Layout.from_environ(ENVIRON) == Layout(
        Path("/home/ada/.portal/ranks/7"), 3, 4, 1, 2, "gpu02", 1
    )


@pytest.mark.parametrize("name", ["PORTAL_TEAM", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"])
def test_a_single_process_has_no_layout(name: str) -> None:
    assert Layout.from_environ({key: ENVIRON[key] for key in ENVIRON if key != name}) is None
    assert Layout.from_environ({**ENVIRON, "SLURM_PROCID": "x"}) is None


def test_good_nodes_are_fit(tmp_path: Path) -> None:
    assert unfit_nodes(here(), {}, layout(tmp_path)) == {}


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"problem": "/tmp has less than 64 MiB free"}, "/tmp has less than 64 MiB free"),
        ({"apart": "Connection refused"}, "it cannot connect to gpu01: Connection refused"),
        ({"skew": 100.0}, "its clock differs by 100 s"),
    ],
)
def test_a_bad_node_is_named(tmp_path: Path, said: dict[str, Any], reason: str) -> None:
    assert unfit_nodes(here(r2=said), {}, layout(tmp_path)) == {"gpu02": reason}


def test_a_node_whose_ranks_do_not_start_is_named(tmp_path: Path) -> None:
    started = {rank: about for rank, about in here().items() if rank < 2}
    over = {2: (255, "gpu02"), 3: (255, "gpu02")}
    why = "the environment does not start there (exit code 255)"
    assert unfit_nodes(started, over, layout(tmp_path)) == {"gpu02": why}


def test_rank_0s_node_is_unfit_if_no_other_reaches_it(tmp_path: Path) -> None:
    nodes = {0: "gpu01", 1: "gpu02", 2: "gpu03"}
    said = {
        rank: {"node": node, "apart": "no answer" if rank else ""} for rank, node in nodes.items()
    }
    assert unfit_nodes(said, {}, layout(tmp_path)) == {"gpu01": "no other node can connect to it"}


def test_nodes_are_excluded_twice_at_most(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    team, exclusions = Team(layout(place)), Exclusions(tmp_path, 0)
    assert exclusions.words == ""
    assert exclusions.exclude({"gpu02": "bad"}, team).endswith("without it (1 of 2).")
    assert exclusions.exclude({"gpu01": "worse"}, team).endswith("without it (2 of 2).")
    assert (place / EXCLUDE).read_text() == "gpu01,gpu02\n"
    assert exclusions.exclude({"gpu03": "bad"}, team) == ""
    assert exclusions.words == "Started again without gpu02 (bad), gpu01 (worse)."


def test_nothing_is_excluded_without_other_nodes(tmp_path: Path) -> None:
    team = Team(layout(tmp_path, spare=0))
    assert Exclusions(tmp_path, 0).exclude({"gpu02": "bad"}, team) == ""
    assert not (tmp_path / EXCLUDE).exists()


def test_a_full_folder_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "_LEAST", 2**62)
    assert "less than" in preflight.node_problem()


def test_strangers_do_not_meet_the_ranks() -> None:
    async def tried() -> list[str]:
        meeting = Meeting()
        port = await meeting.open("127.0.0.1")
        answers = [await trial("127.0.0.1", port, key) for key in (meeting.key, "guess")]
        meeting.close()
        answers.append(await trial("127.0.0.1", port, meeting.key))
        return answers

    right, wrong, closed = asyncio.run(tried())
    assert right == ""
    assert wrong == "another program answers there"
    assert "refused" in closed


def test_the_port_is_free_and_given_to_no_other() -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    port = free_port("127.0.0.1")
    assert port < lowest or lowest < 21_000
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_ranks_of_a_node_never_choose_the_same_port() -> None:
    chosen = [{free_port("127.0.0.1", share, 3) % 3 for _ in range(20)} for share in range(3)]
    assert all(len(ports) == 1 for ports in chosen)
    assert len(set.union(*chosen)) == 3


@pytest.mark.parametrize(
    "workers", [(), ("gpu01:1",), ("gpu01:1", "gpu01:2", "", "gpu02:2"), ("g" * 50_000,) * 4]
)
def test_tensorflow_is_told_of_all_ranks_or_of_none(tmp_path: Path, workers: Any) -> None:
    team = Team(layout(tmp_path, 3))
    assert "TF_CONFIG" not in variables({}, team, "127.0.0.1", 1, workers)
    all_four = ["gpu01:1", "gpu01:2", "gpu02:1", "gpu02:2"]
    told = json.loads(variables({}, team, "127.0.0.1", 1, all_four)["TF_CONFIG"])
    assert told == {"cluster": {"worker": all_four}, "task": {"type": "worker", "index": 3}}


def test_the_interface_is_that_of_the_address() -> None:
    assert interface_to("127.0.0.1") == "lo"


def test_a_script_finds_the_others_by_its_variables(tmp_path: Path) -> None:
    of_srun = {"SLURM_PROCID": "3", "SLURM_CPUS_PER_TASK": "4", "PMI_RANK": "3"}
    environ = {**of_srun, "HOME": "/home/ada"}
    named = variables(environ, Team(layout(tmp_path, 3)), "127.0.0.1", 29_500)
    of_torch = {
        "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500",
        "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "4", "PMI_RANK": "3", "SLURM_PROCID": "3",
    }  # fmt: skip
    assert named.items() >= of_torch.items() and "HOME" not in named
    assert (
        variables({"OMP_NUM_THREADS": "9"}, Team(layout(tmp_path)), "127.0.0.1", 1).get(
            "OMP_NUM_THREADS"
        )
        is None
    )


def test_a_rank_that_starts_at_once_is_seen_at_once() -> None:
    """It is seen after a fifth of the time that it needs, and the home is not asked for ever."""
    looks = list(itertools.islice(pauses(), 40))
    for number in range(1, 12):
        assert looks[number] <= 0.05 + 0.2 * sum(looks[:number])
    assert looks[-1] == LOOKS and sum(looks[:20]) > 3


def test_files_of_a_rank_are_whole_or_absent(team: Team) -> None:
    assert team.read(HERE, 0) is None
    team.write(HERE, {"node": "gpu01"})
    assert team.read(HERE, 0) == {"node": "gpu01"}
    team.path(END, 1).write_text("{")
    assert team.read(END, 1) is None
    target = team.layout.place / "elsewhere"
    target.write_text("{}")
    team.path(END, 2).symlink_to(target)
    assert team.read(END, 2) is None


def test_the_frame_is_the_user_s_own() -> None:
    assert stall._own_frame(FRAMES) == stall.Frame("/home/ada/train.py", 12, "step")
    assert stall._own_frame("nothing") is None


def test_a_silent_rank_is_named(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch(team, {1: "gpu01"})
    team.beat({"idle": 0.0, "state": "R"})
    assert watch.words({0, 1}) == ""
    monkeypatch.setattr(stall, "_SILENT", -1.0)
    assert watch.words({1}).startswith("Nothing was heard of rank 1 on gpu01")


def test_a_stopped_rank_is_named(team: Team) -> None:
    team.beat({"idle": 3.0, "state": "T"})
    assert Watch(team, {0: "gpu01"}).words({0}) == (
        "Rank 0 on gpu01 is stopped (SIGSTOP), and the others wait."
    )


def test_a_busy_script_is_not_idle(team: Team) -> None:
    activity = Activity(team)
    assert activity.about(None) == {"idle": 0.0, "still": 0.0, "state": ""}
    sum(range(3_000_000))
    about = activity.about(os.getpgrp())
    assert about["idle"] == 0.0


def said(team: Team, *ranks: tuple[float, float, int]) -> str:
    """What is said of two or more ranks: for each, the seconds without use of a CPU, those without
    an instruction of Python, and the line in which it is."""
    watch = Watch(team, {rank: f"gpu0{rank + 1}" for rank in range(len(ranks))})
    for rank, (idle, still, _) in enumerate(ranks):
        about = {"number": 1, "idle": idle, "still": still, "state": "R"}
        team.path(ALIVE, rank).write_text(json.dumps(about))
    assert watch.words(set(range(len(ranks)))) == ""
    asked = team.of_lead(STACKS)
    for rank, (_, _, line) in enumerate(ranks if asked else ()):
        about = {**(asked or {}), "frame": ["/home/ada/train.py", line, "step"]}
        team.path(STACK, rank).write_text(json.dumps(about))
    return watch.words(set(range(len(ranks))))


def test_a_rank_that_sleeps_is_named_though_the_others_are_busy(team: Team) -> None:
    assert said(team, (0.0, 0.0, 4), (13.0, 0.0, 9), (0.0, 0.0, 4)) == (
        "Rank 1 on gpu02 has done nothing for 13 s: it is in train.py, line 9, in step, while 2 "
        "others are in train.py, line 4, in step."
    )


def test_a_rank_whose_call_does_not_return_is_named_if_none_goes_on(team: Team) -> None:
    assert said(team, (0.0, 14.0, 4), (0.0, 15.0, 9), (13.0, 0.0, 4)) == (
        "Rank 1 on gpu02 has not gone on for 15 s: it is in train.py, line 9, in step, while 2 "
        "others are in train.py, line 4, in step."
    )


@pytest.mark.parametrize(
    "ranks",
    [
        [(13.0, 0.0, 4), (0.0, 0.0, 9), (13.0, 0.0, 4)],  # it computes, and the others wait
        [(0.0, 1.0, 4), (0.0, 15.0, 9), (0.0, 0.0, 4)],  # all compute
        [(13.0, 0.0, 4), (0.0, 0.0, 9)],  # one of two computes
        [(13.0, 0.0, 4), (0.0, 14.0, 4), (14.0, 0.0, 4)],  # all wait in the same line
        [(1.0, 0.0, 4), (2.0, 0.0, 9), (0.0, 0.0, 4)],
    ],
)
def test_ranks_that_go_on_are_not_named(team: Team, ranks: list[tuple[float, float, int]]) -> None:
    assert said(team, *ranks) == ""


def test_two_ranks_that_wait_for_each_other_are_named(team: Team) -> None:
    assert said(team, (13.0, 0.0, 4), (0.0, 14.0, 9)) == (
        "Rank 0 on gpu01 is in train.py, line 4, in step; rank 1 on gpu02 is in train.py, line 9, "
        "in step: they have not gone on for 12 s."
    )


def test_python_that_goes_on_counts_signals(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    used, now, state = [0.0], [100.0], ["R"]
    monkeypatch.setattr(stall, "_use", lambda pid: (used[0], state[0]))
    monkeypatch.setattr(stall.time, "monotonic", lambda: now[0])
    activity, counts = Activity(team), team.path("trace.count")
    counts.write_text("")
    signals: list[int] = []
    before = signal.signal(stall.GOES_ON, lambda number, frame: signals.append(number))

    def still() -> Any:
        used[0], now[0] = used[0] + 2.0, now[0] + 2.0
        return activity.about(os.getpid())["still"]

    try:
        assert [still() for _ in range(3)] == [0.0, 2.0, 4.0]
        assert len(signals) == 1, "one waits for its answer"
        counts.write_text("1")
        assert [still() for _ in range(2)] == [0.0, 2.0]
        assert len(signals) == 2
        counts.write_text("2")
        state[0] = "S"  # it waits, as for one of its threads: no signal ends a call
        assert [still() for _ in range(4)] == [0.0] * 4 and len(signals) == 2
        now[0] += 2.0  # without use of a CPU
        assert activity.about(os.getpid())["still"] == 0.0
        state[0] = "R"
    finally:
        signal.signal(stall.GOES_ON, before)
    assert still() == 0.0, "by default, the signal would end the process"


def test_a_program_without_handlers_gets_no_signal(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[int] = []
    monkeypatch.setattr(stall.os, "kill", lambda pid, number: killed.append(number))
    team.path("trace").write_text("")
    team.path("trace.count").write_text("")
    team.write_for_all(STACKS, {"number": 7})
    sum(range(3_000_000))
    Activity(team).about(os.getpid())
    assert killed == []


LEFT = {0: (255, "gpu01"), 1: (255, "gpu01")}
APART = {rank: about for rank, about in here().items() if rank > 1}


def test_rank_0s_node_is_excluded_if_it_has_not_started(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    team, exclusions = Team(layout(place, rank=2)), Exclusions(tmp_path, 0)
    outcome = refusal(APART, LEFT, team, exclusions)
    assert outcome is not None and (outcome.state, outcome.exit) == ("waiting", 86)
    assert outcome.message.startswith("gpu01 is unfit: the environment does not start there")
    assert (place / EXCLUDE).read_text() == "gpu01\n"
    alone = refusal(APART, LEFT, Team(layout(place, rank=2, spare=0)), Exclusions(tmp_path, 1))
    assert alone is not None and alone.state == "failed"
    assert alone.message.endswith("There is no other node to run on.")
    assert refusal(here(), {}, team, exclusions) is None


@pytest.mark.parametrize(
    ("others", "code", "started", "acts"),
    [
        (False, 255, False, True),
        (True, 255, False, False),  # another one has spoken
        (False, 0, False, False),  # its point had succeeded
        (False, 143, False, False),  # it was stopped
        (False, 72, True, False),  # it has reported by itself
    ],
)
def test_one_rank_elsewhere_speaks_for_rank_0(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    others: bool,
    code: int,
    started: bool,
    acts: bool,
) -> None:
    monkeypatch.setattr(follower, "_OTHERS", 0.0)
    place = tmp_path / "place"
    place.mkdir()
    for number in (2, 3):
        Team(layout(place, number)).write(HERE, here()[number])
    for number in (0, 1):
        (place / f"{number}.{OVER}").write_text(f"{code} gpu01\n")
    if started:
        Team(layout(place)).write(STARTED, {})
    task = SimpleNamespace(folder=tmp_path, number=0)
    reported: list[str] = []

    async def report(outcome: Outcome) -> int:
        reported.append(outcome.state)
        return outcome.exit

    team = Team(layout(place, 2))
    if others:
        assert team.claim(SPEAKS)
    deputy = follower.Follower(task, team, {}, None, None, report)  # type: ignore[arg-type]
    assert asyncio.run(deputy.run()) == (86 if acts else 0)
    assert reported == ["waiting"] * acts


def test_the_log_of_the_rank_that_failed_first_follows_no_link(tmp_path: Path) -> None:
    """Members of a group may put a link in the place of a log in a folder that they share."""
    team: Any = SimpleNamespace(layout=SimpleNamespace(size=2))
    none: Any = None
    lead = LeadExecution(team, tmp_path, none, none, {}, none, none)
    lead._first = 1
    victim, log = tmp_path / "bashrc", tmp_path / "output.log"
    (tmp_path / log_name(1)).write_text("no data\n")
    victim.write_text("mine")
    log.symlink_to(victim)
    lead._log_first()
    assert victim.read_text() == "mine"
    log.unlink()
    log.write_text("rank 0\n")
    lead._log_first()
    assert log.read_text().startswith("rank 0\n\n--- Rank 1 failed first.")
    assert log.read_text().endswith("no data\n")
