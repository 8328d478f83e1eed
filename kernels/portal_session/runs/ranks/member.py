"""Duties of every rank: to say that it is here, execute its script, and say how that ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...situation import in_thread
from ..execution.outcome import SUCCEEDED, Outcome
from ..execution.script_execution import ScriptExecution
from . import stall
from .layout import Layout
from .network import free_port, interface_to, master_address, own_address
from .preflight import node_problem
from .team import END, ERROR, HERE, TRACE, Team

LOOKS = 0.3  # seconds between two looks at the folder
_FIRST, _GROWTH = 0.03, 1.2
_BEATS = 2.0
ERROR_AT = "PORTAL_ERROR_AT"  # path of a file that an error's time is noted by (`portal_main`)
# Variables of PMI and PMIx, by which a library of MPI finds srun.
_OF_MPI = ("PMI", "SLURM_")
_LONGEST = 100_000  # characters of a variable; execve(2) takes 128 KiB


def pauses() -> Iterator[float]:
    """Yield the seconds between looks for what other ranks write at their start: first few, as they
    start at once, and up to LOOKS, as an image may have to be unpacked elsewhere."""
    pause = _FIRST
    while True:
        yield pause
        pause = min(LOOKS, _GROWTH * pause)


async def introduce(team: Team, **more: Any) -> None:
    """Say that this rank is here, and what is wrong with its node."""
    layout = team.layout
    problem = await in_thread(node_problem) if layout.leads_node else ""
    skew: float | None = None
    if layout.leads_node:
        with contextlib.suppress(OSError):
            skew = await in_thread(team.skew)
    worker = await in_thread(_worker, layout)
    about = {"node": layout.node, "problem": problem, "skew": skew, "worker": worker, **more}
    await in_thread(team.write, HERE, about)


def _worker(layout: Layout) -> str:
    """Return an address of this rank, with a port of its own, at which its script may listen; ""
    if none is free. The last share of a node's ports is for `MASTER_PORT`."""
    try:
        address = own_address(master_address(os.environ))
        return f"{address}:{free_port(address, layout.local_rank, layout.on_node + 1)}"
    except OSError:
        return ""


def log_name(rank: int) -> str:
    """Return the name of the log of a rank other than 0."""
    return f"rank-{rank}.log"


def variables(
    environ: Mapping[str, str], team: Team, address: str, port: int, workers: Sequence[str] = ()
) -> dict[str, str]:
    """Return the variables by which the script of this rank finds the others: those of
    torch.distributed's ``env://``, which Horovod's and others' launchers set too, srun's, and
    TensorFlow's TF_CONFIG. ``workers``: addresses of all ranks, HOST:PORT."""
    layout = team.layout
    named = {name: value for name, value in environ.items() if name.startswith(_OF_MPI)}
    named |= {
        "RANK": str(layout.rank),
        "WORLD_SIZE": str(layout.size),
        "LOCAL_RANK": str(layout.local_rank),
        "LOCAL_WORLD_SIZE": str(layout.on_node),
        "GROUP_RANK": str(layout.rank // layout.on_node),
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
        ERROR_AT: str(team.path(ERROR)),
        stall.VARIABLE: str(team.path(TRACE)),
    }
    task = {"type": "worker", "index": layout.rank}
    config = json.dumps({"cluster": {"worker": list(workers)}, "task": task})
    if len(workers) == layout.size and all(workers) and len(config) < _LONGEST:
        named["TF_CONFIG"] = config
    if interface := interface_to(address):
        for name in ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"):
            named[name] = environ.get(name) or interface
    if "OMP_NUM_THREADS" not in environ:  # as torchrun does, or all ranks would use all CPUs
        named["OMP_NUM_THREADS"] = environ.get("SLURM_CPUS_PER_TASK") or "1"
    return named


class Pulse:
    """Signs of life of this rank, until `end`."""

    def __init__(self, team: Team) -> None:
        self._team, self._activity = team, stall.Activity(team)
        self.script: ScriptExecution | None = None
        self._task = asyncio.ensure_future(self._beat())

    async def _beat(self) -> None:
        while True:
            pid = None if self.script is None else self.script.pid
            about = await in_thread(self._activity.about, pid)
            await in_thread(self._team.beat, about)
            await asyncio.sleep(_BEATS)

    def end(self) -> None:
        """Stop."""
        self._task.cancel()


async def note_end(team: Team, outcome: Outcome, script: ScriptExecution | None) -> None:
    """Say how the script of this rank has ended, and when: by its error, if it had one."""
    about = {
        "ok": outcome.state == SUCCEEDED,
        "message": outcome.message,
        "code": None if script is None else script.code,
    }
    with contextlib.suppress(OSError):
        await in_thread(team.write, END, about)


def ended_at(team: Team, rank: int) -> float:
    """Return when the script of a rank failed."""
    return team.moment(ERROR, rank) or team.moment(END, rank) or float("inf")
