"""GPUs of the demo's Slurm: the machine's NVIDIA GPUs, else simulated ones."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# slurmd accepts character devices only (gres.conf(5), File). These four exist on every machine;
# nothing reads or writes them.
_STAND_INS = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random")


@dataclass(frozen=True)
class Gpus:
    """NVIDIA ``devices`` of the machine (empty: simulated GPUs) and their Slurm type ``kind``."""

    devices: tuple[str, ...] = ()
    kind: str = ""

    @property
    def simulated(self) -> bool:
        """True if the cluster's GPUs are simulated."""
        return not self.devices

    @classmethod
    def of_this_machine(cls) -> Gpus:
        """Return this machine's NVIDIA GPUs; simulated if none or PORTAL_SIMULATE_GPUS=1."""
        devices = [p for p in Path("/dev").glob("nvidia*") if re.fullmatch(r"nvidia\d+", p.name)]
        if not devices or os.environ.get("PORTAL_SIMULATE_GPUS") == "1":
            return cls()
        devices.sort(key=lambda path: int(path.name.removeprefix("nvidia")))
        return cls(tuple(map(str, devices)), _type_name())

    def words(self) -> Iterator[tuple[str, str]]:
        """Yield the template variables of deploy/demo/slurm/nodes*.conf and gres*.conf."""
        if self.simulated:
            yield "gpu_devices", ",".join(_STAND_INS)
            yield "gpu_devices_2", ",".join(_STAND_INS[:2])
            return
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
        yield "gpu_devices", ",".join(self.devices)
        yield "gpu_count", str(len(self.devices))
        yield "gpu_type", self.kind
        yield "cpus", str(os.cpu_count() or 1)
        yield "memory_mb", str(memory * 9 // 10)


def _type_name() -> str:
    """Return the first GPU's Slurm type: ``h200`` for "NVIDIA H200", ``t4`` for "Tesla T4"."""
    try:
        output = subprocess.run(
            ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=30,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        output = ""
    name = output.split("\n")[0].lower()
    words = [word for word in re.findall(r"[a-z0-9]+", name) if re.search(r"\d", word)]
    return words[0] if words else "nvidia"
