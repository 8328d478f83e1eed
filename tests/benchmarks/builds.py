"""Builds of an image from a registry: the first, the same again, and two people at once."""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from api_client import Caller
from images import small
from registry import Registry, registry

from .cluster import Cluster, NotMeasured, wait_for
from .report import Row

WHAT = "A build from a registry (Debian with Python)"
PATIENCE = 600.0
_SMALL = 100_000  # bytes: an image's configuration, which is read for its architecture


def measure(cluster: Cluster) -> list[Row]:
    """Return the rows; the image is pulled once by hand and once by the first build."""
    with registry() as answers, Caller(str(cluster.state["url"]), "grace") as grace:
        for repository in ("bench/first", "bench/second"):
            answers.push(repository, "1", small())
        settings = {"host": answers.host, "insecure": True}
        _done(grace.put(f"registries/{answers.host}", json=settings))
        hand = _by_hand(cluster, answers)
        jobs = _jobs(cluster)
        first = _built(grace, answers, "bench-first")
        once, pulled = _jobs(cluster) - jobs, sum(answers.delivered())
        again = _built(grace, answers, "bench-again")
        more = sum(answers.delivered()) - pulled
        builds = [_ask(grace, answers, f"bench-{name}", "second") for name in ("one", "two")]
    shared = len({build["id"] for build in builds})
    print(
        f"  by hand {hand:.1f} s; first {first:.1f} s, {once} jobs, {pulled:,} bytes; "
        f"again {again:.2f} s, {more:,} bytes"
    )
    return [
        Row(f"{WHAT}: the first", first, "s", "apptainer build by hand", hand),
        Row(f"{WHAT}: again", again, "s", goal="no layer is pulled", met=more < _SMALL),
        Row(f"{WHAT}: builds when two ask at once", shared, "", goal="1", met=shared == 1),
    ]


def _by_hand(cluster: Cluster, answers: Registry) -> float:
    """Return the seconds of ``apptainer build`` of the bare image, without a session's server."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bench-", dir="/var/tmp") as place:
        target, source = Path(place) / "hand.sif", f"docker://{answers.host}/bench/first:1"
        argv = [cluster.state["apptainer"], "build", "--no-https", target, source]
        env = {"PATH": "/usr/bin:/bin", "HOME": place, "APPTAINER_CACHEDIR": f"{place}/cache"}
        done = subprocess.run(argv, capture_output=True, text=True, env=env, check=False)
    if done.returncode:
        raise NotMeasured(f"apptainer build failed: {done.stderr[-300:]}")
    return time.monotonic() - began


def _jobs(cluster: Cluster) -> int:
    """Return the next job id."""
    text = cluster.run("scontrol", "show", "config")
    line = next(row for row in text.splitlines() if row.startswith("NEXT_JOB_ID"))
    return int(line.split("=")[1])


def _ask(grace: Caller, answers: Registry, name: str, repository: str = "first") -> dict[str, Any]:
    """Create an environment and start its build."""
    source = f"docker://{answers.host}/bench/{repository}:1"
    definition = {"name": name, "title": name, "kind": "container", "source": source}
    _done(grace.post("environments", json={"definition": definition, "comment": ""}))
    build: dict[str, Any] = _done(grace.post(f"environments/{name}/versions/1/build", json={}))
    return build


def _built(grace: Caller, answers: Registry, name: str) -> float:
    """Return the seconds from the request to the finished image."""
    began = time.monotonic()
    build = _ask(grace, answers, name)

    def over() -> Any:
        status = _done(grace.get(f"builds/{build['id']}"))
        return status["state"] not in ("waiting", "running") and status

    status = build if build["state"] == "passed" else wait_for("the build", over, PATIENCE)
    if status["state"] != "passed":
        raise NotMeasured(f"the build has {status['state']}: {status['message']}")
    return time.monotonic() - began


def _done(response: Any) -> Any:
    if response.status_code >= 400:
        raise NotMeasured(f"{response.status_code}: {response.text[:300]}")
    return response.json() if response.content else None
