"""Start estimates: the cost of ``sbatch --test-only`` in Slurm, and of a hundred people choosing.

Slurm is real (Debian's 22.05), with accounting, sudo and a hundred accounts, full nodes and a real
queue; only the people's choices are synthetic. Slurm's CPU time is read from /proc.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portal.estimates import HUB, StartEstimates
from portal.launch.request import LaunchRequest
from portal.models.catalog.environment import Environment, EnvironmentKind
from portal.models.person import Person
from portal.models.session.resources import Resources
from portal.slurm import Cluster as Watcher
from portal.slurm import SlurmRunner
from portal.store import Store

from .cluster import PARTITION, PEOPLE, Cluster, wait_for
from .report import Row

QUEUES = (0, 1_000, 10_000)  # pending jobs
_ASKED = 40
_SECONDS = 60.0
_BLOCKER = PEOPLE[-1]
WHAT = "When would it start?"

# Run as the Hub's account inside the demo; prints the seconds of each query, as JSON.
_TIMED = """
import json, subprocess, sys, time
took = []
for number in range(int(sys.argv[1])):
    began = time.monotonic()
    subprocess.run(["sudo", "-n", "-u", sys.argv[2], "/usr/bin/sbatch", "--test-only",
                    "--partition=" + sys.argv[3], "--time=30", "--gres=gpu:1", "--wrap=true"],
                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True)
    took.append(time.monotonic() - began)
print(json.dumps(took))
"""
# Real job records, like those that are queried; an array would be a single record.
_SUBMIT = (
    "seq {number} | xargs -P 3 -I N sbatch --parsable --partition={partition} --gres=gpu:1 "
    "--time=10 --output=/dev/null --wrap true >/dev/null"
)


def measure(cluster: Cluster) -> list[Row]:
    """Return the rows of a query's cost, then of a hundred people with the longest queue."""
    _many_jobs(cluster)
    _block(cluster)
    rows, there = [], 0
    for number in QUEUES:
        if number > there:
            script = _SUBMIT.format(number=number - there, partition=PARTITION)
            cluster.running.run(["sh", "-c", script], PEOPLE[0], timeout=1200)
            there = number
        print(f"  {number} jobs wait", flush=True)
        rows += _question(cluster, number)
    rows += asyncio.run(_people(cluster, there))
    cluster.clear()
    return rows


def _many_jobs(cluster: Cluster) -> None:
    """Raise Slurm's limit of jobs, by default 10,000 with running ones."""
    conf = cluster.running.home.demo / "slurm" / "etc" / "slurm.conf"
    with conf.open("a") as file:
        file.write("\nMaxJobCount=30000\n")
    for do in ("stop", "start"):
        cluster.running.control(do, "slurmctld")
    wait_for("slurmctld", lambda: "UP" in cluster.run("scontrol", "ping", check=False), 30)
    # The partition was not in slurm.conf.
    cluster.run("scontrol", "create", f"PartitionName={PARTITION}", "Nodes=ALL", "State=UP")


def _block(cluster: Cluster) -> None:
    where = [f"--partition={PARTITION}", "--nodes=8", "--exclusive", "--output=/dev/null"]
    cluster.running.run(["sbatch", *where, "--time=60", "--wrap=sleep 3600"], _BLOCKER)
    wait_for("the job that takes all nodes", lambda: cluster.jobs("R") == 1, 30)


def _slurmctld(cluster: Cluster) -> int:
    """Return the process id of slurmctld."""
    return int((cluster.running.home.run / "slurmctld.process").read_text().split()[0])


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _question(cluster: Cluster, waiting: int) -> list[Row]:
    before = _will_run(cluster)
    command = ["/usr/bin/python3", "-c", _TIMED, str(_ASKED), PEOPLE[1], PARTITION]
    took = json.loads(cluster.running.run(command, "portal", timeout=300).stdout)
    after = _will_run(cluster)
    inside = (after[1] - before[1]) / max(1, after[0] - before[0]) / 1000
    what = f"{WHAT} `--test-only` through sudo, {waiting} jobs waiting"
    return [
        Row(f"{what}: median", 1000 * statistics.median(took), "ms"),
        Row(f"{what}: of this in slurmctld", inside, "ms"),
    ]


def _will_run(cluster: Cluster) -> tuple[int, int]:
    """Return slurmctld's number of such queries and their total microseconds (sdiag(1))."""
    match = re.search(
        r"REQUEST_JOB_WILL_RUN\s.*count:(\d+).*total_time:(\d+)", cluster.run("sdiag")
    )
    return (int(match[1]), int(match[2])) if match else (0, 0)


@dataclass
class _Choosing:
    """Seconds of each answer, and state of the choosing."""

    took: list[float]
    people: int


async def _people(cluster: Cluster, waiting: int) -> list[Row]:
    place = cluster.place / "estimates"
    place.mkdir()
    enter = cluster.running.command([], "portal", {"SLURM_TIME_FORMAT": "%s"})
    runner = SlurmRunner(
        sudo=[*enter, "sudo", "-n", "-u", "{user}"],
        commands={"sbatch": "/usr/bin/sbatch", **_wrapped(cluster, place)},
        slurm_conf="",
    )
    watcher = Watcher(runner=runner)
    store = Store(url=f"sqlite:///{place}/portal.sqlite")
    await store.upgrade()
    estimates = StartEstimates(runner=runner, store=store, share=HUB)
    pid, choosing = _slurmctld(cluster), _Choosing([], 0)
    await watcher.snapshot(qos=True)
    requests = await asyncio.to_thread(cluster.requests_of, *PEOPLE)
    cpu, began = _cpu(pid), time.monotonic()
    await asyncio.gather(*(_choose(name, estimates, watcher, choosing) for name in PEOPLE))
    took = time.monotonic() - began
    cpu = (_cpu(pid) - cpu) / took
    requests = await asyncio.to_thread(cluster.requests_of, *PEOPLE) - requests
    await store.close()
    watcher.close()
    counts = estimates.answers
    answers = len(choosing.took)
    what = f"{WHAT} 100 people choosing for a minute, {waiting} jobs waiting"
    rate = requests / took
    latency = sorted(choosing.took)
    share = 100 * (counts["slurm"] + counts["larger"]) / answers
    return [
        Row(f"{what}: requests to slurmctld", rate, "per s", goal="at most 3", met=rate <= 3),
        Row(f"{what}: answers", answers / took, "per s"),
        Row(f"{what}: answers that Slurm has given, now or before", share, "%"),
        Row(f"{what}: questions put to Slurm", estimates.questions.sent, ""),
        Row(f"{what}: an answer, median", 1000 * statistics.median(latency), "ms"),
        Row(f"{what}: an answer, 95 of 100", 1000 * latency[int(0.95 * answers)], "ms"),
        Row(f"{what}: slurmctld, all included", 100 * cpu, "% of a core"),
    ]


async def _choose(
    name: str, estimates: StartEstimates, watcher: Watcher, choosing: _Choosing
) -> None:
    """Act as a person who changes a field every one to four seconds, as after the page's pause."""
    dice = random.Random(name)
    environment = Environment(name="bench", title="Bench", kind=EnvironmentKind.VENV, path="/v")
    choice: dict[str, Any] = {
        "gpus": 1,
        "cpus": 2,
        "memory": "4G",
        "time": "2:00:00",
        "partition": PARTITION,
    }
    choices: dict[str, list[Any]] = {
        "gpus": [0, 1, 2, 3, 4],
        "cpus": [2, 4, 8],
        "memory": ["4G", "16G", "32G"],
        "time": ["0:30:00", "1:00:00", "2:00:00", "4:00:00", "8:00:00"],
        "gpu_type": ["v100", "t4"],
    }
    end = time.monotonic() + _SECONDS
    await asyncio.sleep(dice.uniform(0, 3))
    while time.monotonic() < end:
        key = dice.choice(list(choices))
        choice[key] = dice.choice(choices[key])
        asked = {**choice, "partition": PARTITION}
        if not choice["gpus"]:
            asked["gpu_type"] = None
        if asked.get("gpu_type") == "t4":
            asked["gpus"] = min(2, asked["gpus"])
        request = LaunchRequest(environment=environment, resources=Resources.model_validate(asked))
        began = time.monotonic()
        snapshot = await watcher.snapshot(time.time() - 15, jobs_only=False, qos=True)
        associations = await watcher.associations(name)
        await estimates.answer(request, Person(name=name), snapshot, associations)
        choosing.took.append(time.monotonic() - began)
        await asyncio.sleep(dice.uniform(1, 4))


def _wrapped(cluster: Cluster, place: Path) -> dict[str, str]:
    """Write wrappers that run Slurm's commands inside the demo as the Hub's account."""
    wrappers = {}
    for command in ("squeue", "scontrol", "sacctmgr"):
        file = place / command
        enter = cluster.running.command(["env"], "portal")
        prefix = " ".join(f"'{word}'" for word in enter)
        file.write_text(
            "#!/bin/sh\n"
            f'exec {prefix} SLURM_TIME_FORMAT="$SLURM_TIME_FORMAT" '
            f'SQUEUE_FORMAT2="$SQUEUE_FORMAT2" /usr/bin/{command} "$@"\n'
        )
        file.chmod(0o755)
        wrappers[command] = str(file)
    return wrappers
