"""Readers of the job's GPUs: a module for each vendor, and this table.

PORTAL_GPU_VENDOR names the vendor (portal/launch/container.py); without it, a session has NVIDIA's
GPUs, or none at all. A vendor that is not in the table is an entry point of a package in the image,
which is loaded only for this name.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Callable

from .amd import Amd
from .nvidia import Nvidia
from .vendor import GpuReader, GpuVendor

__all__ = ["GpuReader", "GpuVendor", "gpu_reader", "inventory", "vendor_of"]

_GROUP = "portal_session.gpus"
VARIABLE = "PORTAL_GPU_VENDOR"
_ALL: tuple[GpuVendor, ...] = (Nvidia(), Amd())
VENDORS = {vendor.name: vendor for vendor in _ALL}


def vendor_of(environ: Mapping[str, str]) -> GpuVendor:
    """Return the vendor of this session's GPUs; NVIDIA, whose reader then finds nothing, for a
    name that neither this version nor a package knows."""
    name = environ.get(VARIABLE, "nvidia")
    return VENDORS.get(name) or _installed(name) or VENDORS["nvidia"]


def _installed(name: str) -> GpuVendor | None:
    try:
        from importlib.metadata import entry_points

        points: Any = entry_points()  # Python 3.9 returns a dictionary
        group = points.select(group=_GROUP) if hasattr(points, "select") else points.get(_GROUP, ())
        return next((point.load() for point in group if point.name == name), None)
    except Exception as error:  # a session starts without the use of its GPUs, too
        print(f"The {_GROUP} {name!r} cannot be loaded: {error!r}", file=sys.stderr)
        return None


def gpu_reader(environ: Mapping[str, str]) -> GpuReader:
    """Return the reader of this session's GPUs."""
    return vendor_of(environ).reader(environ)


def inventory(environ: Mapping[str, str], output: Callable[[list[str]], str]) -> dict[str, Any]:
    """Return what the vendor's program reports of this job's GPUs (GpuVendor.inventory)."""
    return vendor_of(environ).inventory(output, environ)
