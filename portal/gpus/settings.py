"""Settings of the GPUs' vendor."""

from __future__ import annotations

from traitlets import Dict, Unicode
from traitlets.config import LoggingConfigurable

from ..plugins import PluginName
from ..setting import setting
from . import DEFAULT, VENDORS, GpuVendor, vendor_named


class Gpus(LoggingConfigurable):
    """The vendor of the cluster's GPUs, for launches and smoke tests."""

    vendor = setting(
        PluginName(VENDORS, "gpus", default_value=DEFAULT.name),
        """Vendor of the cluster's GPUs, which decides how containers get GPUs and how sessions read
        their use: "nvidia", "amd" (not tested on hardware, docs/how-to/amd-gpus.md), or an entry
        point of "data_scientist_portal.gpus".""",
        'c.Gpus.vendor = "amd"',
    )

    vendor_of_type = setting(
        Dict(key_trait=Unicode(), value_trait=PluginName(VENDORS, "gpus")),
        "Vendors of GPU types that differ from ``c.Gpus.vendor``, by Slurm's name of the type.",
        'c.Gpus.vendor_of_type = {"mi300x": "amd", "mi210": "amd"}',
    )

    def vendor_for(self, gpu_type: str | None) -> GpuVendor:
        """Return the vendor of Slurm's GPU type; None or "" (any type) is the cluster's vendor."""
        named = gpu_type or ""
        behind = named.partition(".")[2]  # of shares, "shard.t4"
        types = self.vendor_of_type
        name = types.get(named) or types.get(behind, self.vendor)
        return VENDORS.get(name) or vendor_named(name)
