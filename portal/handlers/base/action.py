"""Base classes of handlers that change something.

Each action checks whose object it is and leaves an entry in the audit log, whether done, refused
or failed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import NoReturn

from portal.errors import Conflict, NotAllowed, NotFound, PortalError, StoreUnavailable
from portal.models import Frozen, scope
from portal.models.audit import AuditAction, AuditedAction, Outcome
from portal.models.cluster.array import whole_job
from portal.models.cluster.dashboard import JobItem
from portal.models.session.session import SessionRecord
from portal.models.session.stop_reason import StopCode, StopReason

from .endpoint import Endpoint

_refreshes: set[asyncio.Task[None]] = set()  # asyncio itself keeps only weak references


class Confirmation(Frozen):
    """Confirmation of an action, as a sentence."""

    message: str


@dataclass
class Line:
    """Audit log entry that an action will leave."""

    target: str
    detail: str


class Action(Endpoint):
    """Base class of handlers that change something."""

    _written = True  # the last entry is in the audit log

    @contextlib.asynccontextmanager
    async def audited(
        self, action: AuditedAction, target: str, owner: str = "", detail: str = ""
    ) -> AsyncIterator[Line]:
        """Write the outcome of the enclosed block to the audit log; errors propagate.

        The block may complete the entry that this yields with what is known only afterwards.
        """
        outcome, line = Outcome.DONE, Line(target, detail)
        try:
            yield line
        except PortalError as error:
            refused = isinstance(error, NotAllowed)
            outcome = Outcome.REFUSED if refused else Outcome.FAILED
            line.detail = f"{error.message} Reason given: {detail}" if detail else error.message
            raise
        except Exception:
            outcome, line.detail = Outcome.FAILED, "The service failed. See its log."
            raise
        finally:
            self._written = await self.parts.audit(
                self, action, line.target, owner=owner, outcome=outcome, detail=line.detail
            )

    async def deny(
        self, target: str, error: PortalError, owner: str = "", detail: str = ""
    ) -> NoReturn:
        """Record in the audit log that this person was denied access, and raise ``error``."""
        await self.parts.audit(
            self,
            AuditAction.DENIED,
            target,
            owner=owner,
            outcome=Outcome.REFUSED,
            detail=f"{self._summary} {detail}".strip(),
        )
        raise error

    async def failed(self, action: AuditedAction, target: str, error: PortalError) -> NoReturn:
        """Record in the audit log that the action failed, and raise ``error``."""
        async with self.audited(action, target):
            raise error
        raise AssertionError  # for mypy: a context manager could have kept the error

    @property
    def _summary(self) -> str:
        return self.operation.summary if self.operation else ""

    def done(self, message: str) -> Confirmation:
        """Return the confirmation; refresh the dashboard in the background at once."""
        task = asyncio.ensure_future(self._refresh())
        _refreshes.add(task)
        task.add_done_callback(_refreshes.discard)
        if not self._written:
            message += (
                " The portal's database does not answer, so this audit entry is only in "
                "the service's log."
            )
        return Confirmation(message=message)

    async def _refresh(self) -> None:
        try:
            await self.parts.dashboard.refreshed()
        except Exception:
            self.parts.log.exception("The refresh after an action failed")

    # -- the things that are acted on ----------------------------------------------------------

    async def session(
        self, id_: str, needs: str, action: AuditedAction | None = None
    ) -> SessionRecord:
        """Return the session if it is this person's own or they hold ``needs``.

        Raises NotFound if this person may not know of it, NotAllowed if they may; the audit log
        has both as "denied". If a holder of ``needs`` asks for a session that does not exist, the
        log has a failed ``action``, if one is given.
        """
        record = await self._record(id_)
        if record is not None and (record.user == self.person.name or self.person.may(needs)):
            return record
        target, nothing = f"session {id_}", NotFound("You have no such session.")
        if record is None and self.person.may(needs):
            if action is not None:
                await self.failed(action, target, nothing)
            raise nothing
        owner = record.user if record else ""
        if record is not None and self.person.may(scope.SESSIONS_READ):
            error = NotAllowed(
                f"This session is not yours. It takes the right to {scope.right(needs)}."
            )
            await self.deny(target, error, owner, f"Needs {needs}.")
        known = "Belongs to another user." if record else "Not found."
        await self.deny(target, nothing, owner, known)

    @contextlib.asynccontextmanager
    async def on_session(
        self, id_: str, needs: str, action: AuditedAction
    ) -> AsyncIterator[SessionRecord]:
        """Yield the session as ``session`` returns it; audit the enclosed block as ``action``, with
        the ``reason`` that the body may give."""
        record, reason = await self.session(id_, needs, action), getattr(self.body, "reason", "")
        async with self.audited(action, f"session {id_}", record.user, reason):
            yield record

    async def _record(self, id_: str) -> SessionRecord | None:
        """Return the session's record; from the dashboard if the database is down."""
        try:
            return await self.parts.store.sessions.get(id_)
        except StoreUnavailable:
            for record in self.view.sessions.values():
                if record.id == id_:
                    return record
            raise

    async def job(self, id_: str, action: AuditedAction, *, own: bool) -> JobItem:
        """Return the job, unmasked, if JOBS_MANAGE is held or, with ``own``, it is this person's.

        Raises NotFound for a job that Slurm did not have at the last poll, NotAllowed otherwise;
        audited as in ``session``.
        """
        target, job = f"job {id_}", self.view.jobs.get(id_)
        may = self.person.may(scope.JOBS_MANAGE)
        if job is None:
            error = NotFound(f"Slurm has no pending or running job {id_}.")
            if may:
                await self.failed(action, target, error)
            await self.deny(target, error, detail="Not found.")
        seen = self.parts.dashboard.job_for(self.person, id_)
        if may or (own and seen is not None and seen.mine):
            return job
        await self.deny(
            target,
            NotAllowed(
                f"Job {id_} is not yours. It takes the right to {scope.right(scope.JOBS_MANAGE)}."
            ),
            job.user or "",
            f"Needs {scope.JOBS_MANAGE}.",
        )


class SessionAction(Action):
    """Base class of actions that may end a session."""

    async def stop(self, record: SessionRecord) -> None:
        """End a session, through the Hub if it still has its server, else by cancelling the
        job. Its owner reads the reason that another user gives."""
        words = "" if record.user == self.person.name else getattr(self.body, "reason", "")
        reason = StopReason(code=StopCode.STOPPED, words=words) if words else None
        if await self._is_newest(record):
            with contextlib.suppress(NotFound):
                await self.parts.hub.stop_server(
                    record.user, record.server, on_behalf_of=self.person.name, reason=reason
                )
                return
        # The Hub has lost the server or has another in its place; the job may still be there.
        job = whole_job(self.view.snapshot.jobs, record.job_id)
        if job is None or job.state.ended:
            raise Conflict("This session has already ended.")
        await self.parts.control.cancel(record.job_id, record.account or record.user)

    async def _is_newest(self, record: SessionRecord) -> bool:
        """Return True if the Hub, asked to stop the server of this name, stops this session."""
        try:
            living, _ = await self.parts.store.sessions.find(
                user=record.user, ended=False, limit=500
            )
        except StoreUnavailable:
            living = [
                session for session in self.view.sessions.values() if session.user == record.user
            ]
        same = [session for session in living if session.server == record.server]
        return not any(session.submitted_at > record.submitted_at for session in same)
