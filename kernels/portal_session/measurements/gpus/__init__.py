"""Readers of the job's GPUs: a module for each vendor, and this table.

PORTAL_GPU_VENDOR names the vendor (portal/launch/container.py); without it, a session has NVIDIA's
GPUs, or none at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from .amd import Amd
from .nvidia import Nvidia
from .vendor import GpuReader, GpuVendor

__all__ = ["GpuReader", "GpuVendor", "gpu_reader", "inventory", "vendor_of"]

VARIABLE = "PORTAL_GPU_VENDOR"
_ALL: tuple[GpuVendor, ...] = (Nvidia(), Amd())
VENDORS = {vendor.name: vendor for vendor in _ALL}


def vendor_of(environ: Mapping[str, str]) -> GpuVendor:
    """Return the vendor of this session's GPUs; NVIDIA, whose reader then finds nothing, for a
    name unknown to this version."""
    return VENDORS.get(environ.get(VARIABLE, ""), VENDORS["nvidia"])


def gpu_reader(environ: Mapping[str, str]) -> GpuReader:
    """Return the reader of this session's GPUs."""
    return vendor_of(environ).reader(environ)


def inventory(environ: Mapping[str, str], output: Callable[[list[str]], str]) -> dict[str, Any]:
    """Return what the vendor's program reports of this job's GPUs (GpuVendor.inventory)."""
    return vendor_of(environ).inventory(output, environ)
