"""AMD GPUs, read through amd-smi, or through rocm-smi if that prints nothing.

Written from AMD's documents, and tested on examples of these programs' output: unproven on
hardware (docs/how-to/amd-gpus.md).
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any, Callable

from .amd_output import FoundGpu, amd_smi, amd_smi_static, rocm_smi
from .programs import program_output

Output = Callable[[list[str]], str]

METRIC = ["amd-smi", "metric", "--usage", "--mem-usage", "--json"]
LIST = ["amd-smi", "list", "--json"]
STATIC = ["amd-smi", "static", "--asic", "--driver", "--json"]
ROCM = [
    "rocm-smi",
    "--showid",
    "--showuniqueid",
    "--showuse",
    "--showmemuse",
    "--showmeminfo",
    "vram",
    "--showproductname",
    "--showdriverversion",
    "--json",
]
# Seconds for which a reading is reused: both are Python programs, slow to start.
FRESH = 10.0
MOST = 64  # GPUs in one report


class Amd:
    """Vendor of sessions with PORTAL_GPU_VENDOR=amd."""

    name = "amd"
    variables: tuple[str, ...] = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")

    def reader(self, environ: Mapping[str, str]) -> AmdReader:
        """Return the reader of a session with these variables."""
        return AmdReader(environ, lambda argv: program_output(argv, environ))

    def inventory(self, output: Output, environ: Mapping[str, str]) -> dict[str, Any]:
        """Return what amd-smi, else rocm-smi, reports of driver and GPUs. Both show all GPUs of
        the node, so that ``environ`` must tell which are the job's."""
        for read, argv in ((amd_smi_static, STATIC), (rocm_smi, ROCM)):
            gpus, driver = read(output(argv))
            names = [gpu.name for gpu in of_this_job(gpus, environ)]
            if names:
                return {"driver": driver, "cuda": "", "names": names, "reason": ""}
        reason = "amd-smi and rocm-smi show no GPU of this job."
        return {"driver": "", "cuda": "", "names": [], "reason": reason}


class AmdReader:
    """Reader through ``output``, which runs a program and returns what it prints ("": nothing)."""

    def __init__(
        self,
        environ: Mapping[str, str],
        output: Output,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._environ = environ
        self._output = output
        self._clock = clock
        self._listing = ""
        self._until = clock()
        self._last: list[dict[str, Any]] = []

    def read(self) -> list[dict[str, Any]]:
        """Return the job's GPUs; no program is started if the job has none."""
        if not _has_gpus(self._environ):
            return []
        if self._clock() >= self._until:
            gpus = of_this_job(self._found(), self._environ)
            self._last = [_report(number, gpu) for number, gpu in enumerate(gpus[:MOST])]
            self._until = self._clock() + FRESH
        return self._last

    def close(self) -> None:
        self._until = self._clock()

    def _found(self) -> list[FoundGpu]:
        metric = self._output(METRIC)
        if metric:
            # The list of GPUs does not change.
            self._listing = self._listing or self._output(LIST)
        gpus = amd_smi(metric, self._listing)
        return gpus or rocm_smi(self._output(ROCM))[0]


def of_this_job(gpus: list[FoundGpu], environ: Mapping[str, str]) -> list[FoundGpu]:
    """Return those of ``gpus`` that are the job's, in their order; [] if that is not certain.

    The programs show all GPUs of the node, also those that a device cgroup keeps from the job.
    ROCR_VISIBLE_DEVICES does not tell which are the job's: with such a cgroup its numbers count
    from 0 in every job. SLURM_JOB_GPUS has the node's numbers (sbatch(1)), which with
    AutoDetect=rsmi (gres.conf(5)) are those of these programs.
    """
    if not _has_gpus(environ):
        return []
    if environ.get("SLURM_GPUS_ON_NODE") == str(len(gpus)):
        return gpus
    visible = [word.strip() for word in environ.get("ROCR_VISIBLE_DEVICES", "").split(",")]
    named = [gpu for gpu in gpus if gpu.uuid.startswith("GPU-") and gpu.uuid in visible]
    if named:
        return named
    text = environ.get("SLURM_JOB_GPUS", "")
    if not re.fullmatch(r"[0-9]{1,4}(,[0-9]{1,4})*", text):
        return []
    numbers = sorted({int(word) for word in text.split(",")})
    return [gpus[number] for number in numbers] if numbers[-1] < len(gpus) else []


def _has_gpus(environ: Mapping[str, str]) -> bool:
    return bool(environ.get("SLURM_JOB_GPUS")) or environ.get("SLURM_GPUS_ON_NODE", "0") != "0"


def _report(index: int, gpu: FoundGpu) -> dict[str, Any]:
    return {
        "index": index,
        "minor": None,
        "uuid": gpu.uuid,
        "utilization": gpu.utilization,
        "memory_used": gpu.memory_used,
        "memory_total": gpu.memory_total,
        "mig": gpu.partition,
    }
