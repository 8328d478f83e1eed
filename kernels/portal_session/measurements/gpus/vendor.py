"""Protocols of a GPU vendor in a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable, Protocol


class GpuReader(Protocol):
    """Reader of the job's GPUs, called repeatedly from one thread."""

    def read(self) -> list[dict[str, Any]]:
        """Return one dictionary per GPU of the job, as the portal's ReportedGpu wants it.

        Fields: ``index``, ``minor``, ``uuid``, ``utilization`` in percent, ``memory_used`` and
        ``memory_total`` in MiB, ``mig``; None is unknown. An empty list if there are no GPUs, or
        none that are certainly the job's. Raises nothing.
        """
        ...

    def close(self) -> None:
        """Release what the reader holds; a later ``read`` acquires it again."""
        ...


class GpuVendor(Protocol):
    """Vendor's GPUs as a session sees them. What launches need to know of the same vendor is in
    portal/gpus/, which cannot be imported here."""

    name: str  # the portal's name of it, in PORTAL_GPU_VENDOR
    # Variables that name a job's GPUs, passed on into a container beside the server.
    variables: tuple[str, ...]

    def reader(self, environ: Mapping[str, str]) -> GpuReader:
        """Return the reader of a session with these variables."""
        ...

    def inventory(
        self, output: Callable[[list[str]], str], environ: Mapping[str, str]
    ) -> dict[str, Any]:
        """Return the smoke test's facts about the job's GPUs: ``driver`` and ``cuda`` (versions,
        "" if unknown), ``names`` (one per GPU), ``reason`` (why there are none).

        ``output`` runs a program in the environment and returns what it prints, "" if it fails.
        """
        ...
