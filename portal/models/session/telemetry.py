"""Report of a session about itself: its GPUs, its memory, and its activity."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from .. import Frozen
from .activity import SessionActivity

_MIB = Annotated[int, Field(ge=0, le=64 * 1024 * 1024, strict=True)]
_Percent = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]


class ReportedGpu(Frozen):
    """GPU that the session sees. None: unknown (MIG, or the driver does not say)."""

    index: Annotated[int, Field(ge=0, le=255, strict=True)]  # as counted in this session
    minor: Annotated[int, Field(ge=0, le=255, strict=True)] | None = None  # of /dev/nvidiaN
    uuid: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9/_-]{0,96}$")] = ""
    utilization: _Percent | None = None
    memory_used: _MIB | None = None
    memory_total: _MIB | None = None
    mig: bool = False


class TelemetryReport(Frozen):
    """Report of a session. ``job_id`` must be the session's own job; host memory in MiB."""

    job_id: Annotated[str, StringConstraints(pattern=r"^[0-9]{1,10}$")]
    gpus: Annotated[tuple[ReportedGpu, ...], Field(max_length=64)] = ()
    memory_used: _MIB | None = None
    memory_limit: _MIB | None = None
    activity: SessionActivity | None = None  # None: the session does not say
