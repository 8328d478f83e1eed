"""Starter: the program of a kernel's job. It starts the kernel, and connects it to the relay.

The kernel's process comes first, as soon as the record is there: what connects it is loaded while
it starts, which takes a tenth of a second less than one after the other.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from .. import places
from ..kernels.shell import set_shell
from . import record as records
from .job.kernel_process import KernelProcess
from .record import BadRecord, Record

VARIABLE = "PORTAL_KERNEL"  # JSON: "id", and "name", the kernelspec's
PATIENCE = "PORTAL_KERNEL_PATIENCE"  # seconds without the session, after which the job ends
_PATIENCE = 1200.0  # a network that was cut for a quarter of an hour costs no variables
_FIRST = 60.0  # seconds until the record must name an address


def run(id: str, name: str, patience: float) -> None:
    """Run the kernel until it is shut down or its session stays away. Raises BadRecord."""
    record = _record(id)
    with tempfile.TemporaryDirectory(prefix="portal-kernel-") as folder:  # mode 700
        process = KernelProcess(name, Path(folder), record.key, record.cwd)
        try:
            # If it fails, it does so again when the relay can be told.
            with contextlib.suppress(Exception):
                process.start()
            import asyncio

            from .job.connected_kernel import keep_connected

            asyncio.run(keep_connected(record, process, patience))
        finally:
            # The job ends by itself: Slurm, which may be told to end it too, shall not see it fail.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            process.kill()


def _record(id: str) -> Record:
    """Return the record once it names an address. Raises BadRecord."""
    deadline = time.monotonic() + _FIRST
    while True:
        try:
            record = records.read(id)
            if record.port:
                return record
            problem = BadRecord("The session did not report its address.")
        except BadRecord as error:
            problem = error
        if time.monotonic() > deadline:
            raise problem
        time.sleep(0.1)


def _end(*_: Any) -> None:
    """End this program: it is not connected yet."""
    raise SystemExit(0)


def main() -> None:
    """Run the starter of the job's kernel. Exits with 72 and a sentence if that is impossible."""
    signal.signal(signal.SIGTERM, _end)
    places.set_places(os.environ)
    set_shell(os.environ)
    try:
        named = json.loads(os.environ.get(VARIABLE, ""))
        id, name = str(named["id"]), str(named["name"])
        run(id, name, float(os.environ.get(PATIENCE) or _PATIENCE))
    except (ValueError, KeyError, TypeError, BadRecord) as error:
        print(f"This job cannot run a kernel: {error}", file=sys.stderr)
        raise SystemExit(72) from error


if __name__ == "__main__":
    main()
