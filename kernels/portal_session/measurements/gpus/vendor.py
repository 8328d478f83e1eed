"""The protocols of a GPU vendor in a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable, Protocol


class GpuReader(Protocol):
    """Reads the job's GPUs, again and again, from one thread."""

    def read(self) -> list[dict[str, Any]]:
        """Return one dictionary per GPU of the job, as the portal's ReportedGpu wants it
        (``index``, ``minor``, ``uuid``, ``utilization`` in percent, ``memory_used`` and
        ``memory_total`` in MiB, ``mig``); what is unknown is None. An empty list where there are
        none, or none that are surely the job's. Raises nothing.
        """
        ...

    def close(self) -> None:
        """Give up what the reader holds; a later ``read`` takes it up again."""
        ...


class GpuVendor(Protocol):
    """A vendor's GPUs as a session sees them. What launches need to know of the same vendor is in
    portal/gpus/, which cannot be imported here."""

    name: str  # the portal's, in PORTAL_GPU_VENDOR
    # Variables that name a job's GPUs, passed on into a container beside the server.
    variables: tuple[str, ...]

    def reader(self, environ: Mapping[str, str]) -> GpuReader:
        """Return the reader of a session with these variables."""
        ...

    def inventory(
        self, output: Callable[[list[str]], str], environ: Mapping[str, str]
    ) -> dict[str, Any]:
        """Return what the smoke test says of the job's GPUs: ``driver`` and ``cuda`` (versions, ""
        where unknown), ``names`` (one per GPU), ``reason`` (why there are none).

        ``output`` runs a program in the environment and returns what it prints, "" where it fails.
        """
        ...
