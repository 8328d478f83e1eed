"""Kept cluster as a notebook uses it: its scheduler is a job, and this is a client of that."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from typing import Any

from distributed.core import rpc
from distributed.deploy import Cluster
from tornado.ioloop import PeriodicCallback

from ..error import ClusterError
from ..job.dask_worker import security
from .cluster import DaskCluster, silence
from .kept_list import PATH, ask, id_of

_EVERY = 5000  # milliseconds between two looks at the portal's state
_PAUSE = 1.0  # seconds between two looks at a scheduler that starts
_QUEUED = 5.0  # seconds after which a job that is still pending waits in the queue
_REFUSED = 20.0  # seconds for which a launch is refused: shorter, the Hub may be busy
_SOON = 600.0  # seconds before the end of a scheduler's job, when that is said
_LOST = (
    "The scheduler of cluster {name} was started again at {at}, since its job had ended: tasks and "
    "results of before are lost. Submit them again."
)
_ENDS = (
    "The scheduler's job of cluster {name} ends at {at}, and another follows: tasks and results "
    "that are on the cluster then are lost."
)
_MOVED = (
    "The scheduler of cluster {name} has ended, and what was on the cluster is lost. Another "
    'follows: connect again with dask("{name}").'
)
_GONE = "The Dask cluster was stopped."


class KeptCluster(DaskCluster):
    """Cluster that outlives this kernel: ``close()`` leaves it running, ``shutdown()`` ends it."""

    def __init__(self, about: dict[str, Any]) -> None:
        self._about, self._resources = about, {}
        self._scheduler, self._warned = None, False
        self._take(about)
        Cluster.__init__(self, name=about["id"])
        silence()
        self._loop_runner.start()
        try:
            self.sync(self._start)
        except BaseException:
            self.close()
            raise

    def shutdown(self) -> None:
        """End the cluster: its scheduler and all workers."""
        with contextlib.suppress(ClusterError):
            ask("DELETE", f"{PATH}/{self.name}")
        self._wanted = 0
        self.close()

    async def _start(self) -> None:
        self.security = security(self._about["certificate"], self._about["private_key"])
        self.scheduler_comm = rpc(
            self._about["scheduler"], connection_args=self.security.get_connection_args("client")
        )
        self.periodic_callbacks["portal"] = PeriodicCallback(self._look, _EVERY)
        await Cluster._start(self)

    async def _ask_for(self, workers: int) -> None:
        path = f"{PATH}/{self.name}"
        self._take(await asyncio.to_thread(ask, "PUT", path, {"workers": workers}))

    async def _look(self) -> None:
        """Follow what the portal says: why workers are missing, and the scheduler's end."""
        if self.status.name != "running":
            return
        try:
            state = await asyncio.to_thread(ask, "GET", f"{PATH}/{self.name}")
        except ClusterError as error:
            if error.status == 404:
                print(_GONE, file=sys.stderr)
                await self._close()
            return
        self._take(state)
        if state["scheduler"] not in ("", self._about["scheduler"]):
            print(_MOVED.format(name=self.name), file=sys.stderr)
            await self._close()
        elif not self._warned and 0 < state["ends"] < time.time() + _SOON:
            self._warned = True
            print(_ENDS.format(name=self.name, at=clock(state["ends"])), file=sys.stderr)

    async def _close(self) -> None:
        await Cluster._close(self)


def make(workers: int, keep: bool | str, resources: dict[str, Any]) -> KeptCluster:
    """Make a kept cluster; return it once its scheduler runs. Raises ClusterError."""
    body = {
        "python": sys.executable,
        "cwd": os.getcwd(),  # noqa: PTH109
        "workers": workers,
        "keep": keep if isinstance(keep, str) else "",
        "resources": resources,
    }
    made = ask("POST", PATH, body)
    try:
        return connect(made["id"])
    except BaseException:  # an interrupt, too: nobody would know of it
        with contextlib.suppress(ClusterError):
            ask("DELETE", f"{PATH}/{made['id']}")
        raise


def connect(name: str) -> KeptCluster:
    """Return a cluster that was kept, once its scheduler runs. Raises ClusterError."""
    id, waits = id_of(name), False
    began = refused = time.monotonic()
    while not (state := ask("GET", f"{PATH}/{id}"))["scheduler"]:
        if state["state"] or not state["problem"]:
            refused = time.monotonic()
        elif time.monotonic() - refused > _REFUSED:
            raise ClusterError(f"The cluster cannot start: {state['problem']}", 403)
        if not waits and state["state"] == "pending" and time.monotonic() - began > _QUEUED:
            print("The scheduler's job waits in the queue.", file=sys.stderr)
            waits = True
        time.sleep(_PAUSE)
    about = ask("POST", f"{PATH}/{id}")
    if about["lost"]:
        print(_LOST.format(name=id, at=clock(about["lost"])), file=sys.stderr)
    try:
        return KeptCluster(about)
    except OSError as error:
        raise ClusterError(
            f"The scheduler at {about['scheduler']} does not answer: {error}. If its node has "
            "failed, another scheduler starts in some minutes.",
            503,
        ) from None


def clock(seconds: float) -> str:
    """Return Unix seconds as the local time."""
    return time.strftime("%H:%M", time.localtime(seconds))
