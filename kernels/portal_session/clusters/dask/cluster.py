"""Cluster object of a notebook: Dask's own, whose workers are jobs that the portal keeps running.

The scheduler runs in the notebook's kernel, as Dask's LocalCluster does, and ends with it.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import html
import logging
import os
import random
import socket
import sys
from typing import Any

from distributed import Scheduler
from distributed.core import rpc
from distributed.deploy import Adaptive, Cluster
from tornado.ioloop import PeriodicCallback

from ...job_kernels.broker_client import Broker, BrokerError
from ..error import ClusterError, ask, check_number
from ..job.dask_worker import private, security

_EVERY = 5000  # milliseconds between two looks at the portal's state
_MOVED = 30.0  # seconds for the data of workers that are no longer wanted
_PATH = "/clusters"


class DaskCluster(Cluster):  # type: ignore[misc]
    """Cluster of ``workers`` jobs with these ``resources`` each. ``client()`` returns a client of
    it; ``scale``, ``adapt`` and ``close`` are Dask's. A worker whose job ends, as before its time
    limit, is replaced."""

    def __init__(self, workers: int, resources: dict[str, Any]) -> None:
        self._broker, self._resources = Broker(), resources
        self._wanted, self._problem = 0, ""
        about = {"python": sys.executable, "cwd": os.getcwd()}  # noqa: PTH109
        self._about = self._ask("POST", _PATH, about)
        self._scheduler: Any = None
        super().__init__(name=self._about["id"])
        silence()
        self._loop_runner.start()
        atexit.register(self.close)
        try:
            self.sync(self._start)
            self.sync(self._ask_for, workers)
        except BaseException:
            self.close()
            raise

    # -- what a notebook uses ---------------------------------------------------------------------

    def client(self) -> Any:
        """Return a client of this cluster."""
        return self.get_client()

    def scale(self, n: int) -> Any:
        """Have ``n`` workers from now on. Raises ClusterError, as for more than are allowed."""
        check_number(n)
        if self._adaptive is not None:
            self._adaptive.stop(reason="scaled by hand")
        return self.sync(self.scale_to, n)

    def adapt(self, minimum: int = 0, maximum: int | None = None, **more: Any) -> Any:
        """Have as many workers as there is work for, from ``minimum`` to ``maximum`` (by default,
        what the site allows to a user); see Dask's ``Adaptive`` for ``more``."""
        most = int(self._about["most"])
        maximum = most if maximum is None else maximum
        check_number(minimum)
        check_number(maximum)
        if not minimum <= maximum <= most:
            raise ClusterError(
                f"A cluster here can have 0 to {most} workers, and the minimum must not be larger "
                f"than the maximum: {minimum} and {maximum} are not possible.",
                400,
            )
        return super().adapt(_Adaptive, minimum=minimum, maximum=maximum, **more)

    @property
    def dashboard_link(self) -> str:
        """Path of the scheduler's pages, behind the session's login."""
        return f"{self._about['path']}status"

    def __repr__(self) -> str:
        threads = sum(w["nthreads"] for w in self.scheduler_info["workers"].values())
        return f"<DaskCluster {self._state()}, {threads} threads, {self.dashboard_link}>"

    def _repr_html_(self, cluster_status: str | None = None) -> str:
        shown = f"{cluster_status or ''}<tr><td colspan='2'>{html.escape(self._state())}</td></tr>"
        return str(super()._repr_html_(cluster_status=shown))

    def _state(self) -> str:
        """Return in words how many workers there are, and what is in the way of the others."""
        if self.status.name in ("closing", "closed"):
            return "closed"
        words = f"{len(self.observed & self.plan)} of {self._wanted} workers"
        return f"{words} ({self._problem})" if self._problem else words

    # -- what Dask asks ---------------------------------------------------------------------------

    @property
    def plan(self) -> set[int]:
        return set(range(self._wanted))

    requested = plan

    @property
    def observed(self) -> set[int]:
        """Numbers of the workers that have connected."""
        return {number_of(worker) for worker in self.scheduler_info["workers"].values()}

    async def _start(self) -> None:
        about = self._about
        self.security = security(about["certificate"], about["private_key"])
        self._scheduler = await self._listening(private(Scheduler, about["socket"]))
        self.scheduler_comm = rpc(
            self._scheduler.address, connection_args=self.security.get_connection_args("client")
        )
        self.periodic_callbacks["portal"] = PeriodicCallback(self._look, _EVERY)
        await super()._start()

    async def _listening(self, scheduler: Any) -> Any:
        """Return a scheduler on a port that the site's firewall allows. Raises ClusterError if none
        is free."""
        options = {"host": self._about["listen"] or None, "security": self.security}
        options |= {"protocol": "tls", "dashboard": True}
        for port in ports_of(self._about["ports"]):
            with contextlib.suppress(OSError):
                socket.create_server((self._about["listen"], port)).close()
                return await scheduler(port=port, **options)
        raise ClusterError(
            f"None of the ports {self._about['ports'] or 'of this node'} is free for the "
            "scheduler. Close another cluster, or ask an admin of the portal.",
            503,
        )

    async def scale_to(self, workers: int) -> None:
        """Have this number of workers: move the data of those that are not needed first."""
        leaving = [
            address
            for address, worker in self.scheduler_info["workers"].items()
            if number_of(worker) >= workers
        ]
        if leaving:
            with contextlib.suppress(asyncio.TimeoutError):
                moved = self.scheduler_comm.retire_workers(workers=leaving, remove=False)
                await asyncio.wait_for(moved, _MOVED)
        try:
            await self._ask_for(workers)
        except BaseException:
            # They take no more tasks: others must replace them.
            await self.scheduler_comm.retire_workers(workers=leaving, close_workers=True)
            raise

    async def _ask_for(self, workers: int) -> None:
        port, host = self._scheduler.port, self._about["address"]
        body = {"workers": workers, "resources": self._resources}
        body["address"] = f"tls://{f'[{host}]' if ':' in host else host}:{port}"
        self._take(await asyncio.to_thread(self._ask, "PUT", f"{_PATH}/{self.name}", body))

    async def _look(self) -> None:
        """Follow what the portal says: why workers are missing, and a stop on its pages."""
        if not self._wanted or self.status.name != "running":
            return
        try:
            state = await asyncio.to_thread(self._broker.ask, "GET", f"{_PATH}/{self.name}")
        except BrokerError as error:
            if error.status != 404:
                return
            state = {}
        if state.get("workers") or not self._wanted:
            self._take(state)
            return
        print("The Dask cluster was stopped on the portal's pages.", file=sys.stderr)
        await self._close()

    def _take(self, state: dict[str, Any]) -> None:
        self._wanted, self._problem = int(state["workers"]), str(state["problem"])

    async def _close(self) -> None:
        if self.status.name == "closed":
            return
        atexit.unregister(self.close)
        self._wanted = 0
        with contextlib.suppress(BrokerError):  # the session's server ends the jobs, later
            await asyncio.to_thread(self._broker.ask, "DELETE", f"{_PATH}/{self.name}")
        if self._scheduler is not None:
            await self._scheduler.close()
        await super()._close()

    def _ask(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return ask(self._broker, method, path, body)


class _Adaptive(Adaptive):  # type: ignore[misc]
    """Adaptive scaling that closes the workers with the highest numbers, as the portal does."""

    async def workers_to_close(self, target: int) -> list[int]:
        return sorted(number for number in self.plan if number >= target)

    async def scale_up(self, n: int) -> None:
        await self.cluster.scale_to(n)

    async def scale_down(self, workers: Any) -> None:
        if workers:
            await self.cluster.scale_to(len(self.plan) - len(workers))


def silence() -> None:
    """Keep what the scheduler does out of the notebook, as Dask's LocalCluster does, unless its log
    was set up."""
    logger = logging.getLogger("distributed")
    if logger.level in (logging.NOTSET, logging.INFO):
        logger.setLevel(logging.WARNING)


def number_of(worker: dict[str, Any]) -> int:
    """Return the number of a worker, whose name has it and its job (`starter.options`); a large one
    for a worker that somebody else has added."""
    number = str(worker.get("name", "")).partition("-")[0]
    return int(number) if number.isdecimal() else sys.maxsize


def ports_of(text: str) -> list[int]:
    """Return the ports of a range such as "40000-40999", in random order; 0, any port, of ""."""
    if not text:
        return [0]
    first, _, last = text.partition("-")
    numbers = list(range(int(first), int(last) + 1))
    random.shuffle(numbers)  # clusters that start at once would try the same ones
    return numbers
