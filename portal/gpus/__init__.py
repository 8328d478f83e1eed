"""GPU vendors: one file each, and this table."""

from __future__ import annotations

from .amd import Amd
from .nvidia import Nvidia
from .vendor import GpuVendor

__all__ = ["DEFAULT", "VENDORS", "GpuVendor"]

_ALL: tuple[GpuVendor, ...] = (Nvidia(), Amd())
VENDORS = {vendor.name: vendor for vendor in _ALL}
# The vendor of sites that set none, and of sessions and jobs that are told none.
DEFAULT = VENDORS["nvidia"]
