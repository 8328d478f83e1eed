"""Settings of the GPUs' vendor."""

from __future__ import annotations

from traitlets import Dict, Enum, Unicode
from traitlets.config import LoggingConfigurable

from ..setting import setting
from . import DEFAULT, VENDORS, GpuVendor


class Gpus(LoggingConfigurable):
    """The vendor of the cluster's GPUs, for launches and smoke tests."""

    vendor = setting(
        Enum(list(VENDORS), default_value=DEFAULT.name),
        """Vendor of the cluster's GPUs, which decides how containers get GPUs and how sessions read
        their use. "amd" has not been tested on hardware: docs/how-to/amd-gpus.md.""",
        'c.Gpus.vendor = "amd"',
    )

    vendor_of_type = setting(
        Dict(key_trait=Unicode(), value_trait=Enum(list(VENDORS))),
        "Vendors of GPU types that differ from ``c.Gpus.vendor``, by Slurm's name of the type.",
        'c.Gpus.vendor_of_type = {"mi300x": "amd", "mi210": "amd"}',
    )

    def vendor_for(self, gpu_type: str | None) -> GpuVendor:
        """Return the vendor of Slurm's GPU type; None or "" (any type) is the cluster's vendor."""
        return VENDORS[self.vendor_of_type.get(gpu_type or "", self.vendor)]
