"""Settings of the GPUs' vendor."""

from __future__ import annotations

from traitlets import Dict, Enum, Unicode
from traitlets.config import LoggingConfigurable

from . import DEFAULT, VENDORS, GpuVendor


class Gpus(LoggingConfigurable):
    """The vendor of the cluster's GPUs, for launches and smoke tests."""

    vendor = Enum(
        list(VENDORS),
        default_value=DEFAULT.name,
        help="""
        The vendor of the cluster's GPUs: how containers get them, and how sessions read them. "amd"
        is unproven on hardware: docs/how-to/amd-gpus.md.

        Example::

            c.Gpus.vendor = "amd"
        """,
    ).tag(config=True)

    vendor_of_type = Dict(
        key_trait=Unicode(),
        value_trait=Enum(list(VENDORS)),
        help="""
        The vendors of GPU types, by Slurm's name for the type, where they are not
        ``c.Gpus.vendor``.

        Example::

            c.Gpus.vendor_of_type = {"mi300x": "amd", "mi210": "amd"}
        """,
    ).tag(config=True)

    def vendor_for(self, gpu_type: str | None) -> GpuVendor:
        """Return the vendor of Slurm's GPU type; None or "" (any type) is the cluster's vendor."""
        return VENDORS[self.vendor_of_type.get(gpu_type or "", self.vendor)]
