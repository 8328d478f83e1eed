"""A sleeping model, woken by a request, beside the same program started by hand in a job. Both
times begin when Slurm has started the job, in its whole seconds, and end with an answer."""

from __future__ import annotations

import re
import statistics
import time
from datetime import datetime
from typing import Any

import httpx
from api_client import Caller

from .cluster import Cluster, NotMeasured, wait_for
from .notebook import WHO, number_in
from .report import Row

WHAT = "A sleeping model, from its job's start to the answer that woke it"
MORE = 2.0  # seconds than the peer
TURNS, IDLE = 3, 60
NAME, LOAD = "wake", 2.0  # seconds until the program listens
_PROGRAM = f"""
import sys, time
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingUnixStreamServer
class Handler(BaseHTTPRequestHandler):
    log_message = lambda *_: None
    def do_GET(self):
        body = sys.executable.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
time.sleep({LOAD})
ThreadingUnixStreamServer(sys.argv[1], Handler).serve_forever()
"""
_VERSION = {
    "environment": "python-venv",
    "command": ["{python}", "wake.py", "{socket}"],
    "partition": "cpu",
    "cpus": 1,
    "memory": "512M",
    "time": "0:30:00",
}
_BY_HAND = (
    "cd && exec srun --quiet --partition=cpu --cpus-per-task=1 --mem=512M --time=10 sh -c '"
    "place=$(mktemp -d); {python} wake.py $place/socket & "
    "until curl --silent --fail --unix-socket $place/socket http://program/; "
    "do sleep 0.05; done; "
    'echo; date "+END %s.%N"; squeue -h -j $SLURM_JOB_ID -o "BEGAN %S"; '
    "kill $!; rm -r $place'"
)


def measure(cluster: Cluster) -> list[Row]:
    """Return the row: medians of turns. Takes five minutes, since a model sleeps after one.
    Raises NotMeasured."""
    home = cluster.running.run(["sh", "-c", "cd && pwd"], WHO).stdout.strip()
    cluster.running.run(["tee", f"{home}/wake.py"], WHO, input=_PROGRAM)
    url = str(cluster.state["url"])
    with Caller(url, WHO) as caller:
        try:
            made = _told(caller.put(f"models/{NAME}", json={"idle": IDLE}))
            _told(caller.post(f"models/{NAME}/versions", json=_VERSION))
            own, peer = _turns(cluster, caller, f"{url}{made['address']}")
        finally:
            caller.delete(f"models/{NAME}")
    print(f"  woken: {own} s; by hand: {peer} s")
    ours, theirs = statistics.median(own), statistics.median(peer)
    return [
        Row(
            WHAT,
            ours,
            "s",
            f"by hand with srun; the program loads for {LOAD:g} s",
            theirs,
            goal=f"at most peer + {MORE:g} s",
            met=ours <= theirs + MORE,
        )
    ]


def _turns(cluster: Cluster, caller: Caller, address: str) -> tuple[list[float], list[float]]:
    own, peer = [], []
    wait_for("the first replica", lambda: caller.get(address).is_success, 120)
    python = caller.get(address).text
    for _ in range(TURNS):
        wait_for("the model to sleep", lambda: not _living(caller), IDLE + 120, 1.0)
        answer = caller.get(address)
        answered = time.time()
        if not answer.is_success:
            raise NotMeasured(f"a request that woke the model: {answer.status_code} {answer.text}")
        (replica,) = _living(caller)
        own.append(answered - replica["started_at"])
        argv = ["sh", "-c", _BY_HAND.format(python=python)]
        shown = cluster.running.run(argv, WHO, timeout=120).stdout
        peer.append(number_in(shown, "END") - _local_time(shown))
    return own, peer


def _living(caller: Caller) -> list[dict[str, Any]]:
    replicas = _told(caller.get(f"models/{NAME}"))["replicas"]
    return [each for each in replicas if each["ended_at"] is None]


def _local_time(shown: str) -> float:
    """Return the Unix seconds at which Slurm has started the job. Raises NotMeasured."""
    found = re.search(r"^BEGAN (\S+)$", shown, re.MULTILINE)
    if found is None:
        raise NotMeasured(f"no start of the job in: {shown}")
    return datetime.fromisoformat(found[1]).astimezone().timestamp()


def _told(answer: httpx.Response) -> dict[str, Any]:
    if not answer.is_success:
        raise NotMeasured(f"{answer.status_code}: {answer.text}")
    return dict(answer.json())
