"""GPU vendors: one file each, and this table."""

from __future__ import annotations

from ..plugins import part_of
from .amd import Amd
from .nvidia import Nvidia
from .vendor import GpuVendor

__all__ = ["DEFAULT", "VENDORS", "GpuVendor", "vendor_named"]

_ALL: tuple[GpuVendor, ...] = (Nvidia(), Amd())
VENDORS = {vendor.name: vendor for vendor in _ALL}
# The vendor of sites that set none, and of sessions and jobs that are told none.
DEFAULT = VENDORS["nvidia"]


def vendor_named(name: str) -> GpuVendor:
    """Return the vendor that a setting names. Raises ConfigurationError if there is none."""
    return part_of(VENDORS, "gpus", name)
