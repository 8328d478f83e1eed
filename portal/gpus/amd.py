"""AMD GPUs. Written from AMD's documents and tested on examples of its programs' output: unproven
on hardware (docs/how-to/amd-gpus.md)."""

from __future__ import annotations


class Amd:
    """AMD, through ROCm; the session asks amd-smi or rocm-smi."""

    name = "amd"
    title = "AMD"
    container_flag = "--rocm"
    # CUDA_VISIBLE_DEVICES and GPU_DEVICE_ORDINAL, which Slurm sets too where gres.conf has no
    # flags, stay out: ROCm applies them after ROCR_VISIBLE_DEVICES, to what that has left, and a
    # job with GPU 1 would find none (gres.conf(5), "known issue"; ROCm, "GPU isolation").
    variables: tuple[str, ...] = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
    tool = "amd-smi"
    driver = "amdgpu"
    driver_title = "AMD driver"
