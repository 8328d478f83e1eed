"""Program of a kept cluster's scheduler job, in the Python of the notebook.

It imports no other module of this package but the worker's program, which lies beside it: that
Python may lack the package. It prints what happens, one word a line, for `kept.starter`.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

LISTENS, IDLE = "listens", "idle"  # what it prints
_WORKER = "dask_worker"  # beside this file, in whose folder Python looks first
_EVERY = 5.0  # seconds between two looks at its clients


async def schedule(record: dict[str, Any], own: dict[str, Any]) -> None:
    """Schedule until the job is stopped."""
    from distributed import Scheduler

    worker = importlib.import_module(_WORKER)
    scheduler = await worker.private(Scheduler, own["socket"])(
        host=own["listen"] or None,
        port=own["port"],
        protocol="tls",
        security=worker.security(record["certificate"], record["private_key"]),
        dashboard=True,
    )
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, lambda: loop.create_task(scheduler.close()))
    print(LISTENS, flush=True)
    looking = loop.create_task(_say_idle(scheduler, own["idle"]))
    await scheduler.finished()
    looking.cancel()


async def _say_idle(scheduler: Any, seconds: float) -> None:
    """Print that the workers have had no client and no task for ``seconds``, and again after as
    many. Dask's own idle_timeout ends the scheduler, and counts a client that thinks as none."""
    used = time.monotonic()
    while True:
        await asyncio.sleep(min(_EVERY, seconds / 4))
        if not scheduler.workers or is_used(scheduler):
            used = time.monotonic()
        elif time.monotonic() - used >= seconds:
            print(IDLE, flush=True)
            used = time.monotonic()


def is_used(scheduler: Any) -> bool:
    """Return True if a scheduler has a client, or a worker with a task."""
    clients = set(scheduler.clients) - {"fire-and-forget"}  # Dask's own
    return bool(clients) or any(worker.processing for worker in scheduler.workers.values())


def main(text: str) -> None:
    """Run a scheduler. Exits with 72 and a sentence if that is impossible."""
    own = json.loads(text)
    record = json.loads(Path(own["record"]).read_text("utf-8"))
    status = 0
    try:
        asyncio.run(schedule(record, own))
    except ImportError as error:
        print(f"This scheduler's Python has no package of Dask: {error}", file=sys.stderr)
        status = 72
    except OSError as error:
        print(f"The scheduler cannot listen at port {own['port']}: {error}", file=sys.stderr)
        status = 73
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main(sys.argv[1])
