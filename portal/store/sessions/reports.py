"""Sums of sessions' reports about themselves. They are shown to the owner and never feed usage.
Written by the service only."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import case

from portal.models.session.usage import SessionReports

from ..engine.columns import COUNT, NAME, TIME, filled, keyed, keys, optional
from ..engine.listing import instant
from ..engine.rows import StoreTable

reports = keyed(
    "session_reports",
    *keys(NAME, "session_id"),
    *filled(COUNT, "reports"),
    *filled(TIME, "gpu_seconds", "busy_seconds"),
    *optional(COUNT, "peak_memory", "peak_gpu_memory"),
    *filled(TIME, "last_at"),
)


class ReportTable(StoreTable):
    """The table of reports. Every method raises StoreUnavailable."""

    async def add_report(
        self,
        session_id: str,
        *,
        at: float,
        gpu_seconds: float,
        busy_seconds: float,
        memory_used: int | None,
        gpu_memory_used: int | None,
    ) -> None:
        """Add a report. Memory in MiB; None: the session does not know it."""
        values = {
            "session_id": session_id,
            "reports": 1,
            "gpu_seconds": gpu_seconds,
            "busy_seconds": busy_seconds,
            "peak_memory": memory_used,
            "peak_gpu_memory": gpu_memory_used,
            "last_at": instant(at, "at"),
        }
        insert = self._database.insert(reports).values(values)
        changed: dict[str, Any] = {
            name: reports.c[name] + insert.excluded[name]
            for name in ("reports", "gpu_seconds", "busy_seconds")
        }
        for name in ("peak_memory", "peak_gpu_memory", "last_at"):
            old, new = reports.c[name], insert.excluded[name]
            changed[name] = case(((old.is_(None)) | (new > old), new), else_=old)
        statement = insert.on_conflict_do_update(index_elements=["session_id"], set_=changed)
        await self._write(statement)

    async def of_sessions(self, ids: Collection[str]) -> dict[str, SessionReports]:
        """Return the sums by session id; sessions that never reported are left out."""
        rows = await self._rows_with(reports.c.session_id, ids)
        return {row.session_id: SessionReports.model_validate(row._asdict()) for row in rows}
