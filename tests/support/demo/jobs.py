"""Jobs as the demo's squeue has them, for tests that compare the portal with Slurm."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from hub_client import wait_until


class Row(NamedTuple):
    """One living job: strings as squeue prints them."""

    id: str
    state: str
    name: str
    gres: str
    node: str


def squeue(demo: Any, *options: str) -> str:
    """What squeue says; "" for a job that Slurm has forgotten. A controller that did not answer
    within Slurm's MessageTimeout is asked again."""

    def answer() -> Any:
        done = demo.run(["squeue", "--noheader", *options], check=False)
        return done if done.returncode == 0 or "Invalid job id" in done.stderr else None

    return str(wait_until("squeue answers", answer).stdout)


def living_jobs(demo: Any, user: str) -> list[Row]:
    """The jobs of one person that wait or run (those that are just ending are left out)."""
    out = squeue(
        demo,
        f"--user={user}",
        "--states=PENDING,CONFIGURING,RUNNING,SUSPENDED",
        "--format=%i|%T|%j|%b|%N",
    )
    return [Row(*line.split("|")) for line in out.splitlines() if line]


def only_job(demo: Any, user: str) -> str:
    """The id of the one living job of a person."""
    (row,) = living_jobs(demo, user)
    return row.id


def job_state(demo: Any, job_id: str) -> str:
    """The state of a job; "" once Slurm has forgotten it."""
    return squeue(demo, "--job", job_id, "--format=%T").strip()


def nothing_left(demo: Any, user: str) -> None:
    """Wait until no job of a person waits, runs or is ending: until then its GPUs and processes
    are there."""
    wait_until(f"no job of {user} is left", lambda: not squeue(demo, f"--user={user}"))


def jobs_ever(demo: Any) -> int:
    """How many jobs this cluster has ever taken: the newest id counts them."""
    out = demo.run(["scontrol", "show", "config"]).stdout
    line = next(line for line in out.splitlines() if line.startswith("NEXT_JOB_ID"))
    return int(line.split("=")[1])


@contextlib.contextmanager
def cpu_nodes_held(demo: Any) -> Iterator[list[str]]:
    """Jobs of barbara's that hold both nodes of the partition cpu: others wait. Their ids."""
    command = ["sbatch", "--parsable", "--partition=cpu", "--exclusive", "--wrap=sleep 300"]
    command.append("--output=/dev/null")
    owner = demo.user("barbara")
    held = [demo.run(command, user=owner).stdout.strip() for _ in range(2)]
    try:
        wait_until(
            "both nodes are held", lambda: all(job_state(demo, j) == "RUNNING" for j in held)
        )
        yield held
    finally:
        demo.run(["scancel", *held], user=owner, check=False)


@contextlib.contextmanager
def no_free_t4(demo: Any) -> Iterator[Callable[[], None]]:
    """All t4 are taken by somebody else; calling what this gives gives them back before its end."""
    barbara = demo.user("barbara")
    command = ["sbatch", "--parsable", "--partition=gpu", "--gres=gpu:t4:2", "--wrap=sleep 600"]
    jobs = [demo.run(command, user=barbara).stdout.strip() for _ in range(2)]
    try:
        wait_until("all t4 are held", lambda: all(job_state(demo, j) == "RUNNING" for j in jobs))
        yield lambda: demo.run(["scancel", *jobs], user=barbara)
    finally:
        demo.run(["scancel", *jobs], user=barbara, check=False)
        wait_until("they are given back", lambda: not any(job_state(demo, j) for j in jobs))
