"""Starter: the program of a kept cluster's scheduler job. It runs the scheduler in the notebook's
Python, and asks the portal what that cannot: it has no token."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from socket import AF_INET
from typing import Any, Callable

from ... import places
from ...job_kernels.record import BadRecord
from ...job_kernels.wire.keys import context
from ...job_kernels.wire.listener import listening
from ...kernels.environment import add_library, for_commands
from ...kernels.shell import set_shell
from ...service import Address, Service, ServiceError
from ...situation import in_thread
from .. import record as records
from ..job.dask_scheduler import IDLE, LISTENS
from ..starter import VARIABLE
from . import state as states
from .relay import serve_port

PATH = "session/kept-clusters"  # of the service
_PROGRAM = Path(__file__).parents[1] / "job" / "dask_scheduler.py"
_TRIES, _PAUSE = 16, 1.0  # while the portal does not know the job's node, or is away
_LAST = 60.0  # seconds before the end of the job in which a cluster without workers ends


class SchedulerJob:
    """Job of a cluster's scheduler. ``ask`` is the service's; ``seconds``: the job's time limit, 0
    for an unknown one."""

    def __init__(self, id: str, seconds: int, ask: Callable[..., Any]) -> None:
        self._id, self._seconds, self._ask = id, seconds, ask
        self._began = time.time()

    async def run(self, environ: Mapping[str, str]) -> int:
        """Run the scheduler until it ends; return its exit status. Raises BadRecord, OSError."""
        record, state = records.read(self._id), states.read(self._id)
        host = await self._host(environ)
        with tempfile.TemporaryDirectory(prefix="portal-dask-") as folder:  # mode 700
            pages = Path(folder) / "socket"
            tls = context(record.certificate, record.private_key, server=True)
            at = listening("", AF_INET, record.ports)
            server = await serve_port(at, tls, pages)
            with listening("", AF_INET, record.ports) as free:
                port = free.getsockname()[1]
            own = {
                "record": str(records.path_of(self._id)),
                "socket": str(pages),
                "listen": "",
                "port": port,
                "idle": state.idle,
            }
            command = dict(for_commands(environ))
            add_library(command)
            process = await asyncio.create_subprocess_exec(
                record.python,
                str(_PROGRAM),
                json.dumps(own),
                stdout=asyncio.subprocess.PIPE,
                env=command,
                cwd=record.cwd if os.path.isdir(record.cwd) else None,  # noqa: ASYNC240, PTH112
            )
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._stop, process)
            ending = asyncio.ensure_future(self._end_unused())
            try:
                assert process.stdout is not None
                async for line in process.stdout:
                    word = line.decode().strip()
                    if word == LISTENS:
                        name = f"[{host}]" if ":" in host else host
                        await in_thread(
                            self._note, f"tls://{name}:{port}", f"{host}:{at.getsockname()[1]}"
                        )
                    elif word == IDLE:
                        print("No client and no task: the workers are stopped.", file=sys.stderr)
                        await self._try("PUT", {"workers": 0})
                return await process.wait()
            finally:
                ending.cancel()
                server.close()
                await in_thread(self._forget_address)

    def _stop(self, process: Any) -> None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()

    async def _host(self, environ: Mapping[str, str]) -> str:
        """Return this node's address, as other nodes reach it."""
        for _ in range(_TRIES):
            item = await self._try("GET")
            if item is not None and item.get("address"):
                return str(item["address"])
            await asyncio.sleep(_PAUSE)
        return environ.get("SLURMD_NODENAME") or "127.0.0.1"  # at most sites an address, too

    def _note(self, address: str, dashboard: str) -> None:
        """Write where the scheduler is reached. Raises BadRecord."""
        state = states.read(self._id)
        ends = self._began + self._seconds if self._seconds else 0.0
        # A scheduler's tasks and results are in its memory alone: nothing hands them over.
        lost = self._began if state.began else state.lost
        states.write(
            self._id,
            state._replace(dashboard=dashboard, began=self._began, ends=ends, lost=lost),
        )
        records.write(records.read(self._id)._replace(address=address))

    def _forget_address(self) -> None:
        """Let workers and clients wait for the next scheduler, unless the cluster is over."""
        with contextlib.suppress(BadRecord):
            records.write(records.read(self._id)._replace(address=""))

    async def _end_unused(self) -> None:
        """End the cluster shortly before the job does, if it has no workers: none uses it."""
        if not self._seconds:
            return
        await asyncio.sleep(max(1.0, self._seconds - _LAST))
        item = await self._try("GET")
        if item is not None and not item["workers"]:
            await self._try("DELETE")

    async def _try(self, method: str, body: dict[str, Any] | None = None) -> Any:
        """Ask the portal about this cluster; return None if it does not answer, or refuses."""
        try:
            return await in_thread(self._ask, method, f"{PATH}/{self._id}", body)
        except ServiceError as error:
            print(f"The portal: {error}", file=sys.stderr)
            return None


def main() -> None:
    """Run the job's scheduler. Exits with 72 and a sentence if that is impossible."""
    places.set_places(os.environ)
    set_shell(os.environ)
    try:
        named = json.loads(os.environ.get(VARIABLE, ""))
        address = Address.from_environ(os.environ)
        if address is None:
            raise OSError("the portal's address is not set")
        ask = Service(address, os.environ).ask
        job = SchedulerJob(str(named["id"]), int(named["seconds"]), ask)
        status = asyncio.run(job.run(os.environ))
    except (ValueError, KeyError, TypeError, BadRecord, OSError) as error:
        print(f"This job cannot run a scheduler: {error}", file=sys.stderr)
        raise SystemExit(72) from error
    raise SystemExit(status)


if __name__ == "__main__":
    main()
