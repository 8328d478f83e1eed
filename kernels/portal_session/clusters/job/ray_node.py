"""Program of a node of a Ray cluster, in the Python of the notebook: the head, which the kernel
starts, or the worker of a job.

It imports no other module of this package, which that Python may lack. Its options are JSON; the
keys are files in its private ``folder``.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import random
import shutil
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

_MB = 1024**2
_STORE = 0.3  # of the job's memory for objects, as in Ray
_LEAST, _UNKNOWN = 80 * _MB, 1024 * _MB  # of that; without a known memory
_MOVED = 15  # seconds for the tasks of a worker that ends
_PREEMPTION = 2  # Ray's reason for which a task's retry is not counted
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)


def variables(folder: str) -> dict[str, str]:
    """Return Ray's settings by which it encrypts and lets in only who has the cluster's keys and
    token (mutual TLS), and tells nobody about itself."""
    return {
        "RAY_USE_TLS": "1",
        "RAY_TLS_CA_CERT": f"{folder}/ca.pem",
        "RAY_TLS_SERVER_CERT": f"{folder}/certificate.pem",
        "RAY_TLS_SERVER_KEY": f"{folder}/key.pem",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": f"{folder}/token",
        "RAY_USAGE_STATS_ENABLED": "0",
    }


def temporary(folder: str) -> str:
    """Return Ray's folder below the private one. Ray lets everybody write into its own."""
    return f"{folder}/r"


def free_ports(text: str, number: int, host: str) -> list[int]:
    """Return up to ``number`` free ports of a range such as "40000-40999", in random order, for
    clusters that start at once; zeros, any ports, of "". Raises OSError if there are too few."""
    if not text:
        return [0] * number
    first, _, last = text.partition("-")
    numbers = list(range(int(first), int(last) + 1))
    random.shuffle(numbers)
    free = []
    for port in numbers:
        with contextlib.suppress(OSError):
            socket.create_server((host, port)).close()
            free.append(port)
        if len(free) == number:
            return free
    raise OSError(
        f"Ray needs {number} ports of {text} on this node, and {len(free)} are free. Close another "
        "cluster, or ask an admin of the portal."
    )


def bare(services: Any) -> None:
    """Let Ray start no agent with ports of its own on a node, as where it is installed without its
    dashboard: what these send is not encrypted, and anybody could read a node's metrics."""
    start = services.start_ray_process

    def started(command: list[str], *args: Any, **more: Any) -> Any:
        agent = "--dashboard_agent_command="
        command = [f"{part} --minimal" if part.startswith(agent) else part for part in command]
        return start(command, *args, **more)

    services.start_ray_process = started


def parameters(own: dict[str, Any]) -> dict[str, Any]:
    """Return Ray's parameters of this node: what its job has, and ports that the site allows."""
    head, host = not own["address"], own["host"]
    processes = max(8, 2 * own["cpus"]) if own["ports"] else 0
    node, objects, head_port, *workers = free_ports(own["ports"], 3 + processes, host)
    store = own["memory"] * _STORE or _UNKNOWN
    return {
        "node_ip_address": host,
        "node_name": own["name"],
        "temp_dir": temporary(own["folder"]),
        "num_cpus": own["cpus"],
        "num_gpus": own["gpus"],
        # What tasks may ask for: nothing of the session's.
        "memory": 0 if head else max(own["memory"] - int(store), 0) or None,
        "object_store_memory": max(int(store), _LEAST),
        "node_manager_port": node,
        "object_manager_port": objects,
        "min_worker_port": 0,
        "max_worker_port": 0,
        "worker_port_list": ",".join(map(str, workers)) or None,
        "ray_client_server_port": None,
        "dashboard_agent_listen_port": 0,
        "no_monitor": True,
        **(
            {"gcs_server_port": head_port, "include_dashboard": False}
            if head
            else {"gcs_address": own["address"]}
        ),
    }


class RayNode:
    """Node of a cluster: Ray's processes, which end with this one."""

    def __init__(self, own: dict[str, Any]) -> None:
        from ray._private import node, parameter, services

        bare(services)
        head = not own["address"]
        node.Node.start_api_server = lambda *_, **__: None
        self._ray = node.Node(
            parameter.RayParams(**parameters(own)), head, shutdown_at_exit=False, spawn_reaper=True
        )
        self.address, self.id = self._ray.gcs_address, self._ray.node_id

    def is_alive(self) -> bool:
        return not self._ray.dead_processes()

    def head_answers(self) -> bool:
        """Return False if the head is gone: Ray itself would try for long."""
        host, _, port = self.address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), 5).close()
        except OSError:
            return False
        return True

    def drain(self) -> None:
        """Have its tasks end or go to other nodes."""
        from ray._raylet import GcsClient

        if not self.head_answers():
            return
        try:
            until = time.time_ns() // 1000000 + _MOVED * 1000
            GcsClient(address=self.address).drain_node(self.id, _PREEMPTION, "its job ends", until)
        except Exception as error:  # the head may be gone
            print(f"The worker's tasks could not be moved: {error!r}", file=sys.stderr)
            return
        end = time.monotonic() + _MOVED
        while self.is_alive() and time.monotonic() < end:
            time.sleep(0.2)

    def end(self) -> None:
        """End Ray's processes, and those that they have left: they are now this program's."""
        tell = not self._ray.head and self.head_answers()  # an end that is told is no error
        self._ray.kill_all_processes(check_alive=False, allow_graceful=tell, wait=True)
        with contextlib.suppress(ChildProcessError):
            while True:
                for pid in children():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                os.wait()


def children() -> list[int]:
    """Return this program's child processes."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            after_name = entry.read_text(errors="replace").rpartition(")")[2].split()
            if int(after_name[1]) == os.getpid():
                found.append(int(entry.parent.name))
    return found


def work(node: RayNode, lifetime: float) -> int:
    """Work until the lifetime is over, the job is stopped, or the head is gone."""
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    end = time.monotonic() + lifetime if lifetime else float("inf")
    while not stopped.wait(0.5) and time.monotonic() < end:
        if not node.is_alive():
            print(f"The head at {node.address} does not answer any more.", file=sys.stderr)
            return 73
    node.drain()
    return 0


def serve(node: RayNode, own: dict[str, Any]) -> int:
    """Be the head until the kernel closes this program's input or ends. That something listens on
    the ``socket`` tells the session that it lives."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(own["socket"])
    listening.listen()
    threading.Thread(target=_greet, args=(listening,), daemon=True).start()
    threading.Thread(target=_watch, args=(node,), daemon=True).start()
    print(json.dumps({"address": node.address}), flush=True)
    sys.stdin.read()
    return 0


def _greet(listening: socket.socket) -> None:
    while True:
        listening.accept()[0].close()


def _watch(node: RayNode) -> None:
    while node.is_alive():
        time.sleep(1)
    print("A process of the cluster's head has ended.", file=sys.stderr, flush=True)
    node.end()
    os._exit(73)


def main(text: str) -> None:
    """Run a node. Exits with 72 or 73 and a sentence if that is impossible."""
    own = json.loads(text)
    sys.path[0] = own["cwd"]  # as in the notebook; it was this file's folder
    for name in ("RAY_ADDRESS", "RAY_TMPDIR", "RAY_START_HOOK"):
        os.environ.pop(name, None)
    os.environ.update(
        variables(own["folder"]),
        GRPC_VERBOSITY="NONE",  # strangers who are refused would write into the notebook
        RAY_gcs_rpc_server_reconnect_timeout_s="20",
    )
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    node = None
    try:
        node = RayNode(own)
        status = work(node, own["lifetime"]) if own["address"] else serve(node, own)
    except ImportError as error:
        print(f"This Python has no package of Ray: {error}", file=sys.stderr)
        status = 72
    except Exception as error:
        where = f"The head at {own['address']} does not answer" if own["address"] else "Ray"
        print(f"{where}: {error}", file=sys.stderr)
        status = 73
    if node is not None:
        node.end()
    # The session removes the head's folder; its log is read before that.
    shutil.rmtree(own["folder"] if own["address"] else temporary(own["folder"]), ignore_errors=True)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # a thread may still run


if __name__ == "__main__":
    main(sys.argv[1])
