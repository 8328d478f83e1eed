"""What ranks of a run's script find out about each other: bad nodes, the network, stacks."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import Any

import pytest
from portal_session.runs.ranks import preflight, stall
from portal_session.runs.ranks.layout import Layout
from portal_session.runs.ranks.member import variables
from portal_session.runs.ranks.network import Meeting, free_port, interface_to, trial
from portal_session.runs.ranks.preflight import Exclusions, unfit_nodes
from portal_session.runs.ranks.stall import Activity, Watch
from portal_session.runs.ranks.team import END, EXCLUDE, HERE, Team

ENVIRON = {
    "PORTAL_TEAM": "/home/ada/.portal/ranks/7",
    "PORTAL_RANKS_ON_NODE": "2",
    "PORTAL_SPARE_NODES": "1",
    "SLURM_PROCID": "3",
    "SLURM_NTASKS": "4",
    "SLURM_LOCALID": "1",
    "SLURMD_NODENAME": "gpu02",
}
STACK = """Current thread 0x00007f0000000000 (most recent call first):
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
    assert stall._own_frame(STACK) == stall.Frame("/home/ada/train.py", 12, "step")
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
    assert activity.about(None) == {"idle": 0.0, "state": ""}
    sum(range(3_000_000))
    about = activity.about(os.getpgrp())
    assert about["idle"] == 0.0
