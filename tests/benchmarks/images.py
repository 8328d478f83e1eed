"""Cost of a container: the same server bare, from a SIF, and from a directory unpacked on the
node's disk; all started by hand, in turns."""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from pathlib import Path

from portal.errors import PortalError
from portal.images.apptainer.apptainer import Apptainer, unpack
from portal.models.catalog.environment import Environment

from .cluster import Cluster, NotMeasured
from .lab import by_hand, shipped
from .report import Row

_SERVER = "A JupyterLab server by hand, from sbatch to its first answer"
WHAT = (_SERVER,)
TIMES = 5


def measure(cluster: Cluster) -> list[Row]:
    """Return the rows; the bare server is the floor of the others."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir="/var/tmp") as place:
        Path(place).chmod(0o755)
        image = shipped(cluster)
        variants = {
            "bare (virtual environment)": shipped(cluster, "python-venv"),
            "SIF": image,
            "directory unpacked on the node": _unpacked(cluster, image, Path(place) / "unpacked"),
        }
        for environment in variants.values():
            by_hand(cluster, environment)  # warms the caches of the machine
        seconds: dict[str, list[float]] = {name: [] for name in variants}
        for _ in range(TIMES):
            for name, environment in variants.items():
                seconds[name].append(by_hand(cluster, environment))
    for name, times in seconds.items():
        print(f"  {name}: " + ", ".join(f"{second:.2f}" for second in times) + " s", flush=True)
    bare, *others = (statistics.median(times) for times in seconds.values())
    rows = [Row(f"{_SERVER}: {next(iter(variants))}", bare, "s")]
    for name, value in zip(list(variants)[1:], others, strict=True):
        rows.append(Row(f"{_SERVER}: {name}", value, "s", floor_value=bare))
    return rows


def _unpacked(cluster: Cluster, environment: Environment, target: Path) -> Environment:
    """Unpack the environment's image; return the environment with that directory as its image."""
    apptainer = Apptainer(cluster.state["apptainer"], temporary=str(target.parent))
    try:
        unpack(apptainer, Path(str(environment.image)), target)
    except PortalError as error:
        raise NotMeasured(f"the image could not be unpacked: {error}") from None
    subprocess.run(["chmod", "-R", "a+rX", target], check=True)
    return environment.model_copy(update={"image": str(target)})
