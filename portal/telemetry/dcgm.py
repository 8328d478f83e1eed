"""NVIDIA's DCGM exporter.

Metrics and labels: github.com/NVIDIA/dcgm-exporter, etc/default-counters.csv and
internal/pkg/rendermetrics.
"""

from __future__ import annotations

from collections.abc import Mapping


class Dcgm:
    """Names of the DCGM exporter; a MIG instance has its number in GPU_I_ID."""

    name = "dcgm"
    title = "DCGM"
    utilization = "DCGM_FI_DEV_GPU_UTIL"  # not there, or 0, for MIG instances
    engine = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
    used = "DCGM_FI_DEV_FB_USED"
    free = "DCGM_FI_DEV_FB_FREE"
    power = "DCGM_FI_DEV_POWER_USAGE"
    uuid_label = "UUID"
    part_labels: tuple[str, ...] = ("GPU_I_ID",)
    node_label = ""
    index_label = ""

    def part_of(self, labels: Mapping[str, str]) -> str:
        return labels.get("GPU_I_ID", "")
