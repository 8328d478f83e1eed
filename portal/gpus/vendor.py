"""The protocol of a GPU vendor."""

from __future__ import annotations

from typing import Protocol


class GpuVendor(Protocol):
    """Facts about a vendor's GPUs that launches and smoke tests need; nothing is asked of a GPU.

    A session reads its GPUs with the vendor of the same ``name`` in
    kernels/portal_session/measurements/gpus/, which is a distribution of its own.
    """

    name: str  # in settings, and in the session's PORTAL_GPU_VENDOR
    title: str  # for people
    # Apptainer's option that brings the driver's libraries and devices in (apptainer-exec(1)).
    container_flag: str
    # Variables that name a job's GPUs. Apptainer's --cleanenv drops them, so the job script
    # (deploy/session.sh) passes these on by name.
    variables: tuple[str, ...]
    tool: str  # the program that lists GPUs, in the sentences of a smoke test
    driver: str  # the driver's key in Facts.versions
    driver_title: str  # the same on tiles
