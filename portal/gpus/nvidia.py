"""NVIDIA GPUs."""

from __future__ import annotations


class Nvidia:
    """NVIDIA, through CUDA; the session reads NVML."""

    name = "nvidia"
    title = "NVIDIA"
    container_flag = "--nv"
    # Without flags in gres.conf(5) Slurm sets all three. deploy/session.sh has the same list, for
    # jobs that are told none.
    variables: tuple[str, ...] = (
        "CUDA_VISIBLE_DEVICES",
        "GPU_DEVICE_ORDINAL",
        "ROCR_VISIBLE_DEVICES",
    )
    tool = "nvidia-smi"
    driver = "driver"
    driver_title = "NVIDIA driver"
