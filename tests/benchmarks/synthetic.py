"""A synthetic cluster of any size: the output of its squeue and scontrol.

Nothing here is Slurm. A separate program simulates the cluster and writes the output, in the form
recorded from Slurm 22.05 (tests/slurm_outputs); two small scripts print it in place of squeue and
scontrol. So the real runner and parser read it, and the cost of making it is not in the figures.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
RECORDED = ROOT / "tests" / "slurm_outputs" / "22.05"

PEOPLE = 200  # user000 …; some of them have portal sessions
_SIZES = ((1, 70), (2, 17), (4, 8), (8, 4), (16, 1))  # GPUs of a job, and how often
_WITHOUT = 0.1  # share of jobs without GPUs
_REMEMBERED = 60  # steps for which an ended job is still listed (MinJobAge of 300 s)
_TYPES = ("h100", "a100", "v100")

_SQUEUE = """#!/bin/sh
# SYNTHETIC squeue: no Slurm is asked.
printf . >>"$(dirname "$0")/../asked"
separator=${SQUEUE_FORMAT2#*:}; separator=${separator%%,*}
LC_ALL=C exec sed "s/SEPARATOR/${separator#?}/g" "$(dirname "$0")/../squeue.txt"
"""
_SCONTROL = """#!/bin/sh
# SYNTHETIC scontrol: no Slurm is asked.
place="$(dirname "$0")/.."
printf . >>"$place/asked"
case "$*" in
    *" show job") exec cat "$place/job.txt" ;;
    *" show "*) for noun; do :; done; [ ! -f "$place/$noun.txt" ] || exec cat "$place/$noun.txt" ;;
    *) sed 's/^show job \\(.*\\)$/^JobId=\\1 /' | exec grep -f - "$place/job.txt" ;;
esac
"""


@dataclass
class _Node:
    name: str
    type: str
    gpus: list[int | None]  # the job of each GPU
    cpus: int = 0
    state: str = "IDLE"
    reason: str = ""
    load: float = 0.0
    free: int = 0


@dataclass
class _Job:
    id: int
    user: int
    gpus: int
    cpus: int
    type: str
    submit: int
    limit: int  # seconds
    state: str = "PENDING"
    reason: str = "Priority"
    start: int | None = None
    end: int | None = None
    held: dict[str, list[int]] = field(default_factory=dict)
    nodes: list[str] = field(default_factory=list)
    text: str = ""  # squeue's record, and scontrol's line, until they change
    line: str = ""


class SyntheticSlurm:
    """Cluster of ``nodes`` nodes with 8 GPUs each, and ``jobs`` pending or running jobs.

    In a ``step``, a third of ``churn`` (a share of the jobs) ends, as many start and as many are
    submitted, and a few nodes change.
    """

    def __init__(self, nodes: int, jobs: int, churn: float, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self._churn = churn
        self._now = int(time.time())
        self._serial = 1000
        self._lines = _Lines()
        self.nodes = {
            f"gpu{number:04d}": _Node(f"gpu{number:04d}", self._type(number, nodes), [None] * 8)
            for number in range(1, nodes + 1)
        }
        self._room = deque(self.nodes.values())
        self.waiting: deque[_Job] = deque()
        self.running: dict[int, _Job] = {}
        self._ended: deque[list[_Job]] = deque(maxlen=_REMEMBERED)
        for node in self._random.sample(sorted(self.nodes), max(1, nodes // 50)):
            self._drain(self.nodes[node])
        for _ in range(jobs):
            self._submit()
        self._start(len(self.waiting))

    def step(self) -> None:
        """Advance by a refresh: some jobs end, others start and are submitted."""
        self._now = int(time.time())
        number = max(1, round(self._churn * (len(self.waiting) + len(self.running)) / 3))
        some = self._random.sample(sorted(self.running), min(number, len(self.running)))
        self._ended.append([self._end(self.running.pop(id_)) for id_ in some])
        for _ in some:
            self._submit()
        self._start(number)
        for node in self._random.sample(sorted(self.nodes), max(1, len(self.nodes) // 1000)):
            self._drain(self.nodes[node])
        for node in self.nodes.values():
            node.load, node.free = self._random.uniform(0, 64), self._random.randrange(900_000)

    def write(self, place: Path) -> None:
        """Write the output files into ``place``, each replaced atomically."""
        texts = {
            "squeue": "".join(self._squeue()),
            "node": "".join(self._lines.node(node) for node in self.nodes.values()),
            "job": "".join(self._lines.job(job) for job in self.running.values()),
            "partition": self._lines.partition(len(self.nodes)),
            "reservation": "No reservations in the system\n",
        }
        for noun, text in texts.items():
            new = place / f".{noun}"
            new.write_text(text)
            new.replace(place / f"{noun}.txt")

    def _squeue(self) -> Iterator[str]:
        jobs = (self.waiting, self.running.values(), *self._ended)
        return (self._lines.squeue(job) for some in jobs for job in some)

    def _type(self, number: int, nodes: int) -> str:
        return _TYPES[min(len(_TYPES) - 1, len(_TYPES) * number // (nodes + 1))]

    def _drain(self, node: _Node) -> None:
        drained = bool(node.reason)
        node.reason = "" if drained else f"Xid 79 on GPU {self._random.randrange(8)}"
        node.state = "IDLE" if drained else "IDLE+DRAIN"

    def _submit(self) -> None:
        self._serial += 1
        some = self._random
        sizes, weights = zip(*_SIZES, strict=True)
        gpus = 0 if some.random() < _WITHOUT else some.choices(sizes, weights)[0]
        self.waiting.append(
            _Job(
                self._serial,
                some.randrange(PEOPLE),
                gpus,
                max(1, 4 * gpus),
                some.choice(_TYPES) if some.random() < 0.3 else "",
                self._now - some.randrange(1, 7200),
                3600 * some.choice((1, 4, 12, 24, 72)),
            )
        )

    def _start(self, most: int) -> None:
        """Start at most ``most`` jobs, first come, first served; the others stay pending."""
        left: deque[_Job] = deque()
        misses = 0
        while self.waiting and most and misses < 500:
            job = self.waiting.popleft()
            if not self._place(job):
                left.append(job)
                misses += 1
                continue
            most -= 1
            job.state, job.reason, job.text = "RUNNING", "None", ""
            job.start = self._now - self._random.randrange(5)
            job.end = job.start + job.limit
            self.running[job.id] = job
        self.waiting.extend(left)

    def _place(self, job: _Job) -> bool:
        wanted, each = max(1, job.gpus // 8), min(job.gpus, 8)
        chosen: list[_Node] = []
        for _ in range(len(self._room)):
            node = self._room[0]
            self._room.rotate(-1)
            fits = node.gpus.count(None) >= each and node.cpus + job.cpus // wanted <= 64
            if fits and not node.reason and job.type in ("", node.type):
                chosen.append(node)
                if len(chosen) == wanted:
                    break
        if len(chosen) < wanted:
            return False
        for node in chosen:
            free = [index for index, holder in enumerate(node.gpus) if holder is None][:each]
            for index in free:
                node.gpus[index] = job.id
            node.cpus += job.cpus // wanted
            job.nodes.append(node.name)
            if free:
                job.held[node.name] = free
        return True

    def _end(self, job: _Job) -> _Job:
        for name in job.nodes:
            node = self.nodes[name]
            node.cpus -= job.cpus // len(job.nodes)
            node.gpus = [None if holder == job.id else holder for holder in node.gpus]
        job.state = self._random.choice(("COMPLETED", "COMPLETED", "FAILED", "CANCELLED"))
        job.end, job.text = self._now, ""
        return job


class _Lines:
    """Formatter of records in Slurm's own form, made from recorded ones."""

    def __init__(self) -> None:
        self._node = _template(
            _recorded("node", "NodeName=gpu01"),
            *("NodeName", "NodeHostName", "NodeAddr", "CPUAlloc", "CPUEfctv", "CPUTot", "CPULoad"),
            *("AvailableFeatures", "ActiveFeatures", "Gres", "GresUsed", "RealMemory", "AllocMem"),
            *("FreeMem", "State"),
        )
        job = _recorded("job", "JobId=11 ")
        job = re.sub(r"  Nodes=\S+ CPU_IDs=\S+ Mem=\d+ GRES=\S*", " Held=", job)
        self._job = _template(job, "JobId", "JobName", "NodeList", "Held").replace("Held=", "")
        self._partition = _template(
            _recorded("partition", "PartitionName=gpu"), "Nodes", "TotalNodes"
        )
        squeue = (RECORDED / "squeue.txt").read_text(errors="replace")
        self._fields = next(
            record.split("\x1fSEPARATOR")
            for record in squeue.split("\x1eSEPARATOR\n")
            if record.startswith("11\x1f")
        )

    def squeue(self, job: _Job) -> str:
        if job.text:
            return job.text
        fields = list(self._fields)
        kind = f",gres/gpu={job.gpus}" if job.gpus else ""
        if job.gpus and job.type:
            kind += f",gres/gpu:{job.type}={job.gpus}"
        fields[:15] = [
            str(job.id),
            job.state,
            job.reason,
            f"user{job.user:03d}",
            "gpu",
            "normal",
            "(null)",
            str(4_000_000_000 - job.id),
            str(job.submit),
            str(job.start or "N/A"),
            str(job.end or "N/A"),
            f"{job.limit // 86400}-{job.limit // 3600 % 24:02d}:00:00",
            str(job.cpus),
            "0",
            ",".join(job.nodes),
        ]
        memory = 16 * max(1, job.gpus)
        fields[15] = f"cpu={job.cpus},mem={memory}G,node={len(job.nodes) or 1},billing=1{kind}"
        fields[16] = f"account{job.user % 10}"
        fields[17] = f"/home/user{job.user:03d}/experiments/run-{job.id}"
        fields[18] = f"/home/user{job.user:03d}/experiments/run-{job.id}/slurm-{job.id}.out"
        fields[-1] = f"train-{job.id % 97}"
        job.text = "\x1fSEPARATOR".join(fields) + "\x1eSEPARATOR\n"
        return job.text

    def node(self, node: _Node) -> str:
        used = [index for index, holder in enumerate(node.gpus) if holder is not None]
        state = node.state
        if used:
            word = "ALLOCATED" if len(used) == len(node.gpus) else "MIXED"
            state = word + node.state.removeprefix("IDLE")
        count = len(node.gpus)
        where = ",".join(map(str, used)) or "N/A"
        line = self._node % {
            "NodeName": node.name,
            "NodeHostName": node.name,
            "NodeAddr": node.name,
            "CPUAlloc": node.cpus,
            "CPUEfctv": 64,
            "CPUTot": 64,
            "CPULoad": f"{node.load:.2f}",
            "AvailableFeatures": node.type,
            "ActiveFeatures": node.type,
            "Gres": f"gpu:{node.type}:{count}",
            "GresUsed": f"gpu:{node.type}:{len(used)}(IDX:{where})",
            "RealMemory": 1_000_000,
            "AllocMem": 4000 * node.cpus,
            "FreeMem": node.free,
            "State": state,
        }
        reason = f" Reason={node.reason} [root@1795230886]" if node.reason else ""
        return f"{line}{reason}\n"

    def job(self, job: _Job) -> str:
        if not job.line:
            held = " ".join(
                f"  Nodes={name} CPU_IDs=0-3 Mem=16384 "
                f"GRES=gpu:h100:{len(indexes)}(IDX:{','.join(map(str, indexes))})"
                for name, indexes in job.held.items()
            )
            job.line = self._job % {
                "JobId": job.id,
                "JobName": f"train-{job.id % 97}",
                "NodeList": ",".join(job.nodes),
                "Held": held,
            }
        return f"{job.line}\n"

    def partition(self, nodes: int) -> str:
        return self._partition % {"Nodes": f"gpu[0001-{nodes:04d}]", "TotalNodes": nodes} + "\n"


def _recorded(noun: str, start: str) -> str:
    text = (RECORDED / f"{noun}.txt").read_text(errors="replace")
    return next(line for line in text.splitlines() if line.startswith(start))


def _template(line: str, *names: str) -> str:
    """Return the line with a placeholder for each of these fields."""
    line = line.replace("%", "%%")
    for name in names:
        line = re.sub(rf"(^|\s){name}=\S*", rf"\1{name}=%({name})s", line, count=1)
    return line


@dataclass
class Synthetic:
    """Running generator; ``bin`` holds the substitutes for squeue and scontrol."""

    place: Path
    process: subprocess.Popen[str]

    @property
    def bin(self) -> Path:
        return self.place / "bin"

    def step(self) -> None:
        """Advance by a refresh."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("step\n")
        self.process.stdin.flush()
        self.process.stdout.readline()


@contextlib.contextmanager
def synthetic(
    nodes: int, jobs: int, churn: float = 0.01, interval: float | None = None
) -> Iterator[Synthetic]:
    """Run a synthetic cluster while the block runs. It changes by ``step``, or every ``interval``
    seconds."""
    with tempfile.TemporaryDirectory(prefix="synthetic-", dir="/var/tmp") as place:
        options = [f"--nodes={nodes}", f"--jobs={jobs}", f"--churn={churn}", f"--place={place}"]
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.benchmarks.synthetic", *options),
                *([f"--interval={interval}"] if interval else []),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield Synthetic(Path(place), process)
        finally:
            process.kill()
            process.communicate()


def size_parser(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options for the size of a cluster and the churn of its jobs."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--churn", type=float, default=0.01)
    return parser


def main() -> None:
    """Run the generator: a step per line of standard input, or every ``--interval`` seconds."""
    parser = size_parser("Write a synthetic cluster's texts.")
    parser.add_argument("--interval", type=float)
    parser.add_argument("--place", type=Path, required=True)
    args = parser.parse_args()
    (args.place / "bin").mkdir()
    for name, text in (("squeue", _SQUEUE), ("scontrol", _SCONTROL)):
        script = args.place / "bin" / name
        script.write_text(text)
        script.chmod(0o755)
    parent = os.getppid()
    cluster = SyntheticSlurm(args.nodes, args.jobs, args.churn)
    while True:
        cluster.write(args.place)
        print("written", flush=True)
        if args.interval:
            time.sleep(args.interval)
            if os.getppid() != parent:
                return  # nobody reads it any longer
        elif not sys.stdin.readline():
            return
        cluster.step()


if __name__ == "__main__":
    main()
