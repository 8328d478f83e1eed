"""AMD's Device Metrics Exporter. Written from its documentation, unproven on hardware
(docs/how-to/amd-gpus.md).

Metrics and labels: github.com/ROCm/device-metrics-exporter, docs/configuration/metricslist.md,
grafana/, and pkg/exporter/proto/exporterconfig.proto for the labels that cannot be switched off.
"""

from __future__ import annotations

from collections.abc import Mapping

# Partition types of a GPU that is one device. Others ("cpx", "dpx", "qpx", "tpx") are divided into
# several, which share the engine's metric (metricslist.md, GPU_GFX_ACTIVITY).
_WHOLE = frozenset({"", "none", "spx"})


class AmdExporter:
    """Names of AMD's exporter; each part of a partitioned GPU has its own gpu_id."""

    name = "amd"
    title = "AMD"
    utilization = "gpu_gfx_activity"
    engine = ""
    used = "gpu_used_vram"  # "MB", as amd-smi has it: MiB
    free = "gpu_free_vram"
    power = "gpu_package_power"
    uuid_label = "gpu_uuid"
    part_labels: tuple[str, ...] = ("gpu_compute_partition_type", "gpu_partition_id")
    node_label = "hostname"
    index_label = "gpu_id"

    def part_of(self, labels: Mapping[str, str]) -> str:
        kind = labels.get("gpu_compute_partition_type", "").lower()
        return "" if kind in _WHOLE else f"{kind} {labels.get('gpu_partition_id', '')}"
