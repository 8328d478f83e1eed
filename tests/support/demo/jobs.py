"""Jobs as listed by the demo's squeue, for tests that compare the portal with Slurm."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from hub_client import wait_until
from processes import mark


class Row(NamedTuple):
    """Row of squeue for a pending or running job: strings as printed."""

    id: str
    state: str
    name: str
    gres: str
    node: str


def squeue(demo: Any, *options: str) -> str:
    """Return the output of squeue; "" for a job that Slurm has forgotten. Retry if the controller
    did not answer within Slurm's MessageTimeout."""

    def answer() -> Any:
        done = demo.run(["squeue", "--noheader", *options], check=False)
        return done if done.returncode == 0 or "Invalid job id" in done.stderr else None

    return str(wait_until("squeue answers", answer).stdout)


def living_jobs(demo: Any, user: str) -> list[Row]:
    """Return the pending and running jobs of a person (completing ones are left out)."""
    out = squeue(
        demo,
        f"--user={user}",
        "--states=PENDING,CONFIGURING,RUNNING,SUSPENDED",
        "--format=%i|%T|%j|%b|%N",
    )
    return [Row(*line.split("|")) for line in out.splitlines() if line]


def only_job(demo: Any, user: str) -> str:
    """Return the id of a person's only living job."""
    (row,) = living_jobs(demo, user)
    return row.id


def job_state(demo: Any, job_id: str) -> str:
    """Return the state of a job; "" once Slurm has forgotten it."""
    return squeue(demo, "--job", job_id, "--format=%T").strip()


def nothing_left(demo: Any, user: str) -> None:
    """Wait until no job of a person is pending, running or completing: until then it has GPUs and
    processes. Fail with the jobs that are left."""
    try:
        wait_until(f"no job of {user} is left", lambda: not squeue(demo, f"--user={user}"))
    except AssertionError as error:
        left = squeue(demo, f"--user={user}", "--format=%i %j %T %r %M of %l, %k")
        raise AssertionError(f"{error}\n{left}") from None


def jobs_ever(demo: Any) -> int:
    """Count the jobs that this cluster has ever accepted, by the next job id."""
    out = demo.run(["scontrol", "show", "config"]).stdout
    line = next(line for line in out.splitlines() if line.startswith("NEXT_JOB_ID"))
    return int(line.split("=")[1])


_KILL = """import os, signal, sys
for name in os.listdir('/proc'):
    if not name.isdigit(): continue
    try:
        if os.stat('/proc/' + name).st_uid != os.getuid(): continue
        data = open(f'/proc/{name}/environ').read()
        line = open(f'/proc/{name}/cmdline').read().split('\\0')
    except OSError: continue
    own = f'SLURM_JOB_ID={sys.argv[1]}' in data.split('\\0') and sys.argv[2] in data
    if own and (sys.argv[3:] or 'portal_session' in line):
        os.kill(int(name), signal.SIGKILL); print(name)
"""


def kill_server(demo: Any, user: str, job_id: str) -> None:
    """Kill the server of a person's session with SIGKILL, and wait until its job is over."""
    argv = ["/usr/bin/python3", "-c", _KILL, job_id, mark(demo)]
    killed = demo.run(argv, user=demo.user(user))
    assert killed.stdout.strip(), "it has no server"
    wait_until("the session is over", lambda: not job_state(demo, job_id))


def lose_processes(demo: Any, user: str, job_id: str) -> None:
    """Kill all processes of a person's job with SIGKILL at once, as a node does that is lost."""
    argv = ["/usr/bin/python3", "-c", _KILL, job_id, mark(demo), "all"]
    assert demo.run(argv, user=demo.user(user)).stdout.strip(), "it has no processes"


@contextlib.contextmanager
def cpu_nodes_held(demo: Any) -> Iterator[list[str]]:
    """Hold both nodes of the partition cpu with jobs of barbara, so that others wait; yield their
    ids."""
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
def no_free_t4(demo: Any, *options: str) -> Iterator[Callable[[], None]]:
    """Have somebody else hold all t4 GPUs, in jobs with these options; yield a function that gives
    them back early."""
    barbara = demo.user("barbara")
    command = ["sbatch", "--parsable", "--partition=gpu", "--gres=gpu:t4:2", "--wrap=sleep 600"]
    command += options
    jobs = [demo.run(command, user=barbara).stdout.strip() for _ in range(2)]
    try:
        wait_until("all t4 are held", lambda: all(job_state(demo, j) == "RUNNING" for j in jobs))
        yield lambda: demo.run(["scancel", *jobs], user=barbara)
    finally:
        demo.run(["scancel", *jobs], user=barbara, check=False)
        wait_until("they are given back", lambda: not any(job_state(demo, j) for j in jobs))
