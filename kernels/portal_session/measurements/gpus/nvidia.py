"""NVIDIA GPUs, read through NVML; none on a machine without GPUs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Callable

MIB = 1024 * 1024
MOST = 64  # GPUs in one report
_UUID = re.compile(r"[A-Za-z0-9/_-]{0,96}")


class Nvidia:
    """Vendor of sessions with PORTAL_GPU_VENDOR=nvidia, or without that variable."""

    name = "nvidia"
    variables: tuple[str, ...] = (
        "CUDA_VISIBLE_DEVICES",
        "GPU_DEVICE_ORDINAL",
        "ROCR_VISIBLE_DEVICES",
    )

    def reader(self, environ: Mapping[str, str]) -> NvmlReader:
        """Return the reader of a session with these variables."""
        return NvmlReader(environ)

    def inventory(
        self, output: Callable[[list[str]], str], environ: Mapping[str, str]
    ) -> dict[str, Any]:
        """Return what nvidia-smi reports of driver and GPUs; ``environ`` is not needed, since it
        shows a job what the job may use."""
        query = ["nvidia-smi", "--query-gpu=driver_version,name", "--format=csv,noheader"]
        rows = [line.split(", ", 1) for line in output(query).splitlines()]
        rows = [row for row in rows if len(row) == 2 and re.fullmatch(r"[0-9.]+", row[0])]
        if not rows:
            return {"driver": "", "cuda": "", "names": [], "reason": "nvidia-smi shows no GPU."}
        cuda = re.search(r"CUDA Version: *([0-9.]+)", output(["nvidia-smi"]))
        return {
            "driver": rows[0][0],
            "cuda": cuda[1] if cuda else "",
            "names": [row[1] for row in rows],
            "reason": "",
        }


class NvmlReader:
    """Reader through ``nvml`` (the module pynvml; None: imported at the first reading).

    NVML stays initialised: on a node without nvidia-persistenced, every initialisation wakes the
    GPUs. After a failure, it is initialised again at the next reading.
    """

    def __init__(self, environ: Mapping[str, str], nvml: Any = None) -> None:
        self._environ = environ
        self._nvml = nvml
        self._ready = False

    def read(self) -> list[dict[str, Any]]:
        """Return one dictionary per GPU, as the portal's ReportedGpu wants it; values unknown to
        NVML are None. Without a driver or a library: an empty list."""
        try:
            if self._nvml is None:
                import pynvml

                self._nvml = pynvml
            if not self._ready:
                self._nvml.nvmlInit()
                self._ready = True
            devices = visible(self._nvml, self._environ)
        except Exception:  # no library, no driver, a replaced driver: try again later
            self.close()
            return []
        return [
            reading(self._nvml, index, device, mig)
            for index, (device, mig) in enumerate(devices[:MOST])
        ]

    def close(self) -> None:
        if self._ready:
            self._ready = False
            _ask(self._nvml, "nvmlShutdown")


def visible(nvml: Any, environ: Mapping[str, str]) -> list[tuple[Any, bool]]:
    """Return NVML's devices that the job may use, in NVML's order, and whether each is a MIG
    instance.

    Slurm names them in CUDA_VISIBLE_DEVICES (numbers or UUIDs; CUDA C++ Programming Guide,
    "Environment Variables"). If that is not set, all that NVML shows count if they are as many as
    the job has here; on a node that does not confine its jobs, NVML shows everyone's.
    """
    whole = [nvml.nvmlDeviceGetHandleByIndex(n) for n in range(nvml.nvmlDeviceGetCount())]
    named = environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        job_has_all = environ.get("SLURM_GPUS_ON_NODE") == str(len(whole))
        return [(device, False) for device in whole] if job_has_all else []
    chosen: dict[int, tuple[Any, bool]] = {}
    for position, word in enumerate(word.strip() for word in named.split(",")):
        if re.fullmatch("[0-9]{1,4}", word):
            number = int(word)
            if number < len(whole):
                chosen[number] = (whole[number], False)
        elif word.startswith("GPU-"):
            for number, device in enumerate(whole):
                if _text(_ask(nvml, "nvmlDeviceGetUUID", device)).startswith(word):
                    chosen[number] = (device, False)
        elif word.startswith("MIG-"):
            device = _ask(nvml, "nvmlDeviceGetHandleByUUID", word)
            if device is not None:
                chosen[len(whole) + position] = (device, True)
    return [chosen[number] for number in sorted(chosen)]


def reading(nvml: Any, index: int, device: Any, mig: bool) -> dict[str, Any]:
    """Return one GPU. A GPU in MIG mode has no utilisation; an impossible number is None."""
    mode = _ask(nvml, "nvmlDeviceGetMigMode", device)
    mig = mig or bool(mode and mode[0])
    rates = None if mig else _ask(nvml, "nvmlDeviceGetUtilizationRates", device)
    memory = _memory(nvml, device)
    uuid = _text(_ask(nvml, "nvmlDeviceGetUUID", device))
    total = _whole(memory.total // MIB, 64 * MIB) if memory else None
    return {
        "index": index,
        "minor": None if mig else _whole(_ask(nvml, "nvmlDeviceGetMinorNumber", device), 255),
        "uuid": uuid if _UUID.fullmatch(uuid) else "",
        "utilization": _whole(rates.gpu, 100) if rates else None,
        "memory_used": _whole(memory.used // MIB, total or 64 * MIB) if memory else None,
        "memory_total": total,
        "mig": mig,
    }


def _memory(nvml: Any, device: Any) -> Any:
    """Return NVML's answer on memory: ``used`` without what the driver reserves, as in nvidia-smi.
    An older driver or library counts that as used."""
    version = getattr(nvml, "nvmlMemory_v2", None)
    newer = _ask(nvml, "nvmlDeviceGetMemoryInfo", device, version) if version else None
    return newer or _ask(nvml, "nvmlDeviceGetMemoryInfo", device)


def _ask(nvml: Any, name: str, *arguments: Any) -> Any:
    """Return NVML's answer; None if it has none ("not supported", a GPU that is lost)."""
    try:
        return getattr(nvml, name)(*arguments)
    except Exception:
        return None


def _text(value: Any) -> str:
    """Decode a value to str: older versions of pynvml return bytes."""
    return value.decode("ascii", "replace") if isinstance(value, bytes) else str(value or "")


def _whole(value: Any, most: int) -> int | None:
    return value if isinstance(value, int) and 0 <= value <= most else None
