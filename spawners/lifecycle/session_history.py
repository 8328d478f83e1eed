"""Record of one spawner's session, updated at each event."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from datetime import UTC
from typing import Any

from pydantic import ValidationError

from portal.errors import PortalError
from portal.launch.request import LaunchRequest
from portal.models.cluster.cluster import Job
from portal.models.session.session import SessionRecord, SessionState
from portal.sessions.ending import Ending
from portal.store.migrations.work import with_work

from ..metrics import count_end, count_ready, count_refusal
from ..resize.successor import Successor
from ..session import SessionSpawner
from .reconciler import ended


class SessionHistory:
    """History of the spawner's session; ``record`` is None before the first launch."""

    def __init__(self, spawner: SessionSpawner) -> None:
        self._spawner = spawner
        self.record: SessionRecord | None = None
        self._unsaved: SessionRecord | None = None  # of a session that is over

    # -- what happens ---------------------------------------------------------------------------

    def submitted(self, request: LaunchRequest) -> None:
        """Record that Slurm has the job. Call ``note`` once the spawner's own state is stored."""
        self.record = self._new(request)

    def resubmitted(self) -> None:
        """Record that the job came to nothing, and another one was submitted in its place."""
        spawner = self._spawner
        self._update(
            state=SessionState.PENDING,
            job_id=spawner.job_id,
            log_path=f"{spawner.log_directory}/{spawner.log_name}",
            started_at=None,
            nodes=(),
        )

    def refused(self, request: LaunchRequest, error: PortalError) -> None:
        """Record why there is no job."""
        self.record = self._new(request).model_copy(
            update={
                "state": SessionState.ENDED,
                "ended_at": time.time(),
                "ending_code": "start_failed",
                "ending_message": error.message,
            }
        )
        count_refusal(request.kind.name, error)
        self.note()

    def running(self, job: Job) -> None:
        """Record that the job has its nodes; its server does not answer yet."""
        if self.record is not None and self.record.state is SessionState.PENDING:
            self._update(
                state=SessionState.STARTING,
                started_at=job.start_time or time.time(),
                nodes=job.nodes,
            )

    def ready(self, job: Job | None) -> None:
        """Record that the server has posted its port."""
        record = self.record
        if record is None or record.ready_at is not None or record.state is SessionState.ENDED:
            return
        seen = {"nodes": job.nodes, "started_at": job.start_time} if job and job.nodes else {}
        self._update(state=SessionState.RUNNING, ready_at=time.time(), **seen)
        if self.record is not None:
            count_ready(self.record)

    def stopping(self, reason: Ending) -> None:
        """Record the reason of a stop; the session ends when its job has."""
        if self.record is not None and self.record.state is not SessionState.ENDED:
            self._update(
                stopped_by=reason.by,
                ending_code=reason.code,
                ending_message=reason.message,
                log=reason.log,
            )

    def ended(self, job: Job, ending: Ending) -> None:
        """Record that the job is over."""
        if self.record is not None and self.record.state is not SessionState.ENDED:
            self.record = ended(self.record, job, ending)
            count_end(self.record)
            self.note()

    def moved(self, successor: Successor, ending: Ending | None) -> None:
        """Record that another job is the session now. ``ending``: why the one before ends, if it
        has not ended already."""
        before = self.record
        if before is None:
            return
        if ending is not None:
            self.stopping(ending)
        self.left()
        spawner = self._spawner
        self.record = SessionRecord(
            id=secrets.token_urlsafe(12),
            user=before.user,
            server=before.server,
            account=before.account,
            groups=spawner.person.groups,
            environment=before.environment,
            environment_title=before.environment_title,
            options=successor.options,
            partition_automatic=successor.partition_automatic,
            work=before.work,
            space=before.space,
            job_id=successor.job_id,
            submitted_at=successor.asked_at // 1,  # whole seconds, as in Slurm
            log_path=f"{spawner.log_directory}/{successor.log_name}",
        )
        self.note()

    def left(self) -> None:
        """Hand the session over to the recorder: the spawner no longer looks after it."""
        record, self.record = self.record, None
        if record is None:
            return
        if record.state is not SessionState.ENDED:
            count_end(record)
        recorder = self._spawner.shared.recorder
        if record.job_id and (
            record.state is not SessionState.ENDED or (record.nodes and record.peak_memory is None)
        ):
            recorder.close(record)
        self._unsaved = None if recorder.has(record.id) else record

    # -- what must outlive the Hub --------------------------------------------------------------

    def state(self) -> dict[str, Any] | None:
        """Return the record for the spawner's own state, without the log; None if the database has
        all that is to be known."""
        record = self.record or self._unsaved
        return record.model_dump(mode="json", exclude={"log"}) if record else None

    def load(self, state: dict[str, Any] | None) -> None:
        """Restore the record. A session that an earlier portal started has none, and gets one."""
        if not self._spawner.job_id:
            return
        try:
            self.record = stored_record(state or {})
        except ValidationError:
            self.record = self._of_an_earlier_portal()
        self.note()

    def note(self) -> None:
        """Pass the record to the recorder as it is now."""
        if self.record is not None:
            self._spawner.shared.recorder.note(self.record)

    # ---------------------------------------------------------------------------------------------

    def _update(self, **changes: Any) -> None:
        if self.record is not None:
            self.record = self.record.model_copy(update=changes)
            self.note()

    def _new(self, request: LaunchRequest) -> SessionRecord:
        spawner = self._spawner
        return SessionRecord(
            id=secrets.token_urlsafe(12),
            user=spawner.user.name,
            server=spawner.name,
            account=spawner.account,
            groups=spawner.person.groups,
            environment=request.environment.name,
            environment_title=request.environment.title,
            options=request.options(),
            partition_automatic=request.partition_automatic,
            work=request.kind.name,
            space=request.kind.space_name,
            job_id=spawner.job_id,
            submitted_at=time.time() // 1,  # as Slurm counts, or it would start before it
            log_path=f"{spawner.log_directory}/{spawner.log_name}" if spawner.log_name else "",
        )

    def _of_an_earlier_portal(self) -> SessionRecord:
        spawner = self._spawner
        started = spawner.orm_spawner.started  # JupyterHub's times are UTC without a zone
        began = started.replace(tzinfo=UTC).timestamp() if started else time.time()
        return SessionRecord(
            # The same at each start of the Hub.
            id=f"job-{spawner.job_id}-{began:.0f}",
            user=spawner.user.name,
            server=spawner.name,
            account=spawner.account,
            groups=spawner.person.groups,
            environment=str(spawner.last_options.get("environment", "")),
            options=spawner.last_options,
            partition_automatic=spawner.partition_automatic,
            work=spawner.work,
            space=spawner.space,
            job_id=spawner.job_id,
            state=SessionState.RUNNING if spawner.server_address else SessionState.PENDING,
            submitted_at=began,
            ready_at=began if spawner.server_address else None,
            log_path=f"{spawner.log_directory}/{spawner.log_name}" if spawner.log_name else "",
        )


def stored_record(state: Mapping[str, Any]) -> SessionRecord:
    """Return the record that the Hub's database has. Raises ValidationError."""
    return SessionRecord(**with_work(state))
