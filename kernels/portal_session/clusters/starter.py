"""Starter: the program of a worker's job. It becomes a worker, in the notebook's Python."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from .. import places
from ..job_kernels.record import BadRecord
from ..kernels.environment import add_library, for_commands
from ..kernels.shell import set_shell
from ..programs.runtime import Runtime
from ..runs.ranks.network import own_address
from . import leaf
from . import record as records
from .record import ClusterRecord

VARIABLE = "PORTAL_CLUSTER"  # JSON: "id", "number" and "seconds", the job's time limit; 0: unknown
_PATIENCE = 600.0  # seconds for a kept cluster's scheduler, whose job may wait in the queue
_JOB = Path(__file__).parent / "job"


def lifetime(seconds: int, number: int) -> int:
    """Return after how many seconds a worker ends by itself; 0 if the time limit of its job is
    unknown. It is before that, while its data can still be moved to the others; and those of a
    cluster end one after the other, or there would be no others."""
    margin = max(15, min(120, seconds // 8))
    earlier = 0.4 * (number * 0.618034 % 1)  # multiples of the golden ratio: evenly spread
    return max(10, int((seconds - margin) * (1 - earlier))) if seconds else 0


def options(record: ClusterRecord, number: int, seconds: int, environ: Mapping[str, str]) -> str:
    """Return the worker's own options as JSON: what follows from its job, and no secret."""
    # Slurm's own counts: a node without cgroups shows all of its CPUs and memory to a job.
    cpus = environ.get("SLURM_CPUS_PER_TASK") or environ.get("SLURM_CPUS_ON_NODE", "")
    memory = environ.get("SLURM_MEM_PER_NODE", "")
    return json.dumps(
        {
            "record": str(records.path_of(record.id)),
            "name": f"{number}-{environ.get('SLURM_JOB_ID', '')}",  # a node may come back late
            "threads": int(cpus) if cpus.isdecimal() else 0,
            "memory": int(memory) * 1024**2 if memory.isdecimal() else 0,
            "lifetime": lifetime(seconds, number),
        }
    )


def ray_options(
    record: ClusterRecord, number: int, seconds: int, environ: Mapping[str, str]
) -> str:
    """Return the options of a worker of Ray as JSON. Its keys are files in a new folder of this
    node, which it removes. Raises OSError, ValueError."""
    own = json.loads(options(record, number, seconds, environ))
    head = record.address.removeprefix("tls://")
    host = own_address(head.rpartition(":")[0])
    runtime = Runtime.make(environ, longest=leaf.SOCKET)
    runtime.hand_on()
    leaf.write_keys(runtime.path, record, host)
    gpus = environ.get("SLURM_GPUS_ON_NODE", "")
    return json.dumps(
        {
            "folder": str(runtime.path),
            "socket": "",
            "host": host,
            "address": head,
            "ports": record.ports,
            "name": own["name"],
            "cpus": own["threads"] or len(os.sched_getaffinity(0)),
            "gpus": int(gpus) if gpus.isdecimal() else 0,
            "memory": own["memory"],
            "lifetime": own["lifetime"],
            "cwd": record.cwd,
        }
    )


def become_worker(id: str, number: int, seconds: int) -> NoReturn:
    """Replace this process by the worker. Raises BadRecord, OSError."""
    record = _addressed(id)
    made, program = (ray_options, "ray_node.py") if record.token else (options, "dask_worker.py")
    own = made(record, number, seconds, os.environ)
    environ = for_commands(os.environ)
    add_library(environ)
    if os.path.isdir(record.cwd):  # noqa: PTH112
        os.chdir(record.cwd)
    os.execve(record.python, [record.python, str(_JOB / program), own], environ)  # noqa: S606


def _addressed(id: str) -> ClusterRecord:
    """Return the record once it has the scheduler's address: that of a kept cluster has one while
    its job runs. Raises BadRecord."""
    deadline = time.monotonic() + _PATIENCE
    while not (record := records.read(id)).address:
        if time.monotonic() > deadline:
            raise BadRecord("the job of the cluster's scheduler has not started")
        time.sleep(0.5)
    return record


def main() -> None:
    """Run the job's worker. Exits with 72 and a sentence if that is impossible."""
    places.set_places(os.environ)
    set_shell(os.environ)
    try:
        named = json.loads(os.environ.get(VARIABLE, ""))
        become_worker(str(named["id"]), int(named["number"]), int(named["seconds"]))
    except (ValueError, KeyError, TypeError, BadRecord, OSError) as error:
        print(f"This job cannot run a worker: {error}", file=sys.stderr)
        raise SystemExit(72) from error


if __name__ == "__main__":
    main()
