"""Reports of sessions on their GPUs and memory. The asker is a session, not a person."""

from __future__ import annotations

import math
import time
from typing import Any

from portal.errors import StoreUnavailable, TooManyRequests
from portal.models.audit import AuditAction
from portal.models.cluster.gpu_share import share_of
from portal.models.scope import TELEMETRY_REPORT
from portal.models.session.telemetry import TelemetryReport
from portal.telemetry import sums

from ..base.endpoint import Operation
from ..base.own_session import OwnSession

uptime = time.monotonic  # unlike the machine's clock, it makes no steps


class TelemetryEndpoint(OwnSession):
    """``telemetry``: a session's report of itself."""

    path = "telemetry"
    scope = TELEMETRY_REPORT

    _wait = 0.0

    @Operation(
        "Report the GPU and memory usage of a session's job. Needs the session's own token.",
        body=TelemetryReport,
        errors=(429,),
    )
    async def on_post(self) -> None:
        parts, now, report = self.parts, time.time(), self.body
        who = (self.person.name, self.server)
        self._wait = parts.telemetry.pace.admit(who, uptime())
        if self._wait:
            raise TooManyRequests("This session reports too often. Wait before the next report.")
        record, job = await self.own_job(report.job_id, AuditAction.REPORT_TELEMETRY)
        if share_of(record.options.get("gpu_type")):
            # What the device says of its use and memory is that of all its jobs.
            report = report.model_copy(update={"gpus": ()})
        node = self.view.snapshot.nodes.get(job.nodes[0]) if job.nodes else None
        parts.telemetry.take(job, report, now, node)
        parts.idle.record_activity(record.id, report.activity)
        seconds = parts.telemetry.pace.passed(who, uptime())
        try:
            await parts.store.reports.add_report(
                record.id,
                at=now,
                memory_used=report.memory_used,
                **sums(report, seconds, parts.telemetry.busy),
            )
        except StoreUnavailable as error:
            # The report is shown; what it would have added to the session's sums is lost.
            parts.log.debug("A report was not recorded: %s", error)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        if self._wait:
            self.set_header("Retry-After", str(math.ceil(self._wait)))
        super().write_error(status_code, **kwargs)


ENDPOINTS = (TelemetryEndpoint,)
