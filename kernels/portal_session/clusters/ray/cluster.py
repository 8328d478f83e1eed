"""Cluster object of a notebook for Ray: the head is a process of the notebook's kernel, the workers
are jobs that the portal keeps running."""

from __future__ import annotations

import atexit
import contextlib
import html
import json
import os
import select
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, ClassVar

import ray
from ray._raylet import AuthenticationTokenLoader, Config, GcsClient

from ...job_kernels.broker_client import Broker, BrokerError
from ..error import ClusterError, ask, check_number
from ..job.ray_node import temporary, variables

_PROGRAM = Path(__file__).parents[1] / "job" / "ray_node.py"
_PATH = "/clusters"
_EVERY = 5.0  # seconds between two looks at the portal's state
_READY = 60  # seconds for the head to start
_ENDED = 15.0  # for it to end
_ASKED = 5.0  # for its list of workers
_HEAD = "head"
_ALIVE = 0  # Ray's state of a node
_ADDRESS = "RAY_ADDRESS"  # where ray.init() connects


class RayCluster:
    """Cluster of ``workers`` jobs with these ``resources`` each. ``connect()`` returns the module
    ``ray``, connected to it. A worker whose job ends, as before its time limit, is replaced."""

    _open: ClassVar[RayCluster | None] = None  # Ray can be connected to one cluster in a process

    def __init__(self, workers: int, resources: dict[str, Any]) -> None:
        if RayCluster._open is not None and RayCluster._open._closed.is_set():
            RayCluster._open.close()  # wait for it
        if RayCluster._open is not None:
            raise ClusterError(
                "This kernel has a Ray cluster, and Ray can use one at a time. Close that first, "
                "with close(), or change its number of workers, with scale().",
                409,
            )
        if ray.is_initialized():
            raise ClusterError(
                "This kernel is connected to another Ray cluster. Call ray.shutdown() first.", 409
            )
        self._broker, self._resources = Broker(), resources
        self._wanted, self._problem, self.address = 0, "", ""
        self._closed, self._closing = threading.Event(), threading.Lock()
        about = {"python": sys.executable, "cwd": os.getcwd(), "engine": "ray"}  # noqa: PTH109
        self._about = ask(self._broker, "POST", _PATH, about)
        self.name, self._log = self._about["id"], Path(self._about["folder"]) / "log"
        self._head: subprocess.Popen[bytes] | None = None
        self._before = {name: os.environ.get(name) for name in (*variables(""), _ADDRESS)}
        RayCluster._open = self
        atexit.register(self.close)
        try:
            self._start()
            self.scale(workers)
        except BaseException:
            self.close()
            raise
        threading.Thread(target=self._watch, daemon=True).start()

    # -- what a notebook uses ---------------------------------------------------------------------

    def connect(self, **options: Any) -> Any:
        """Return the module ``ray``, connected to this cluster; ``options`` are those of
        ``ray.init``. Raises ClusterError for a closed cluster."""
        if self._closed.is_set():
            raise ClusterError("This cluster is closed. Make a new one.", 409)
        if not ray.is_initialized():
            options = {"logging_level": "warning", **options}
            ray.init(self.address, _temp_dir=temporary(self._about["folder"]), **options)
        return ray

    def scale(self, n: int) -> None:
        """Have ``n`` workers from now on. Raises ClusterError, as for more than are allowed."""
        check_number(n)
        if self._closed.is_set():
            raise ClusterError("This cluster is closed. Make a new one.", 409)
        body = {"workers": n, "resources": self._resources, "address": f"tls://{self.address}"}
        self._take(ask(self._broker, "PUT", f"{_PATH}/{self.name}", body))

    def close(self) -> None:
        """End all workers, and the head."""
        with self._closing:
            if RayCluster._open is self:
                self._close()

    def _close(self) -> None:
        self._closed.set()
        atexit.unregister(self.close)
        if ray.is_initialized():
            ray.shutdown()
        if self._head is not None and self._head.stdin is not None:
            self._head.stdin.close()
            try:
                self._head.wait(_ENDED)
            except subprocess.TimeoutExpired:
                self._head.kill()
                self._head.wait()
        with contextlib.suppress(BrokerError):  # the session's server ends the jobs, later
            self._broker.ask("DELETE", f"{_PATH}/{self.name}")
        _set(self._before)
        RayCluster._open = None

    def workers(self) -> list[str]:
        """Return the names of the workers that have connected: their numbers and their jobs'."""
        if self._head is None or self._head.poll() is not None:
            return []  # Ray would ask for long
        try:
            nodes = GcsClient(address=self.address).get_all_node_info(timeout=_ASKED)
        except Exception:  # it is closed now, or does not answer
            return []
        alive = [node.node_name for node in nodes.values() if node.state == _ALIVE]
        return sorted(name for name in alive if name != _HEAD)

    def __repr__(self) -> str:
        return f"<RayCluster {self._state()}>"

    def _repr_html_(self) -> str:
        return f"<p><b>Ray cluster</b>: {html.escape(self._state())}</p>"

    def _state(self) -> str:
        """Return in words how many workers there are, and what is in the way of the others."""
        if self._closed.is_set():
            return "closed"
        words = f"{len(self.workers())} of {self._wanted} workers"
        return f"{words} ({self._problem})" if self._problem else words

    # -- the head ---------------------------------------------------------------------------------

    def _start(self) -> None:
        """Start the head, and let this process connect to it. Raises ClusterError."""
        about = self._about
        memory = about["memory"]
        own = {
            **{name: about[name] for name in ("folder", "socket", "ports")},
            "host": about["address"],
            "address": "",
            "name": _HEAD,
            "cpus": 0,
            "gpus": 0,
            "memory": int(memory) * 1024**2 if memory.isdecimal() else 0,
            "lifetime": 0,
            "cwd": os.getcwd(),  # noqa: PTH109
        }
        # In a session of its own: an interrupt of a cell is not for the head.
        with self._log.open("wb") as log:
            self._head = subprocess.Popen(
                [sys.executable, str(_PROGRAM), json.dumps(own)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        ready, _, _ = select.select([self._head.stdout], [], [], _READY)
        line = self._head.stdout.readline() if ready and self._head.stdout else b""
        if not line:
            raise ClusterError(f"Ray's head did not start: {self._last_words()}", 503)
        self.address = json.loads(line)["address"]
        _set({**variables(about["folder"]), _ADDRESS: self.address})

    def _last_words(self) -> str:
        with contextlib.suppress(OSError):
            lines = self._log.read_text(errors="replace").strip().splitlines()
            return lines[-1] if lines else "it does not answer."
        return "it has ended."

    # -- the portal -------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Follow what the portal says: why workers are missing, and a stop on its pages."""
        while not self._closed.wait(_EVERY):
            if self._head is not None and self._head.poll() is not None:
                self._end("The head of the Ray cluster has ended.")
                return
            try:
                state = self._broker.ask("GET", f"{_PATH}/{self.name}")
            except BrokerError as error:
                if error.status != 404:
                    continue
                state = {}
            if state.get("workers") or not self._wanted:
                self._take({"workers": self._wanted, "problem": "", **state})
                continue
            self._end("The Ray cluster was stopped on the portal's pages.")

    def _end(self, sentence: str) -> None:
        if not self._closed.is_set():
            print(sentence, file=sys.stderr)
            self.close()

    def _take(self, state: dict[str, Any]) -> None:
        self._wanted, self._problem = int(state["workers"]), str(state["problem"])


def _set(values: dict[str, str | None]) -> None:
    """Set variables, or unset those that are None, and have Ray read them: it was imported."""
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()
