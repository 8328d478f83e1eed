"""Images per second of the shipped chexnet-scaling in a container and in a virtual environment, in
turns in one run of that script."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

from tests.support.containers.frameworks import python_of
from tests.support.containers.machine_image import machine_image

from .cluster import ROOT, NotMeasured
from .report import Row

RANKS, ROUNDS, STEPS = 8, 5, 8
WHAT = "CheXNet's training in a container"
SHARE = 0.02
_STARTERS = ROOT / "deploy/environments/starters"
_LIBRARY = ROOT / "kernels/portal_session/runs/library"


def measure() -> list[Row]:
    """Return a row for each number of ranks, up to the CPUs of this machine: ranks that share one
    wait for each other, in both places alike."""
    ranks = min(RANKS, len(os.sched_getaffinity(0)))
    with tempfile.TemporaryDirectory(prefix="portal-bench-", dir="/var/tmp") as place:
        results = _results(Path(place), ranks)
    values = {(row["name"], row["conditions"].split(",")[0]): row["value"] for row in results}
    rows = []
    for count in sorted({1, 2, 4, ranks}):
        if (key := f"ranks={count}") not in {condition for _, condition in values}:
            continue
        ratio = values["container to virtual environment", key]
        rows.append(
            Row(
                f"{WHAT}, {count} rank{'s' * (count > 1)}: images per second, of its peer's",
                100 * ratio,
                "%",
                "a virtual environment, in turns",
                100.0,
                goal=f"at least {1 - SHARE:.0%} of peer",
                met=ratio >= 1 - SHARE,
            )
        )
    return rows


def _results(place: Path, ranks: int) -> list[dict[str, object]]:
    options = [f"--image={place / 'image'}", f"--ranks={ranks}"]
    options += [f"--rounds={ROUNDS}", f"--steps={STEPS}"]
    environ = {
        **os.environ,
        **machine_image(place / "image"),
        "PORTAL_METRICS": str(place / "metrics.jsonl"),
        "PYTHONPATH": str(_LIBRARY),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    script = str(_STARTERS / "chexnet-scaling.py")
    done = subprocess.run(
        [str(python_of("torch")), script, *options],
        env=environ,
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise NotMeasured(done.stderr.strip().rpartition("\n")[2])
    print(done.stdout, flush=True)
    return list(json.loads((place / "results.json").read_text())["results"])
