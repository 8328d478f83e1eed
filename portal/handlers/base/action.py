"""Base of everything that changes something: whose it is, and a line in the audit log whether it
was done, refused or failed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import NoReturn

from portal.errors import Conflict, NotAllowed, NotFound, PortalError, StoreUnavailable
from portal.models import Frozen, scope
from portal.models.audit import Outcome
from portal.models.cluster.dashboard import JobItem
from portal.models.session.session import SessionRecord

from .endpoint import Endpoint

_refreshes: set[asyncio.Task[None]] = set()  # asyncio itself keeps only weak references


class Done(Frozen):
    """What was done, in a sentence."""

    message: str


@dataclass
class Line:
    """The line of the audit log that an action will leave."""

    target: str
    detail: str


class Action(Endpoint):
    """Base of everything that changes something."""

    @contextlib.asynccontextmanager
    async def audited(
        self, action: str, target: str, owner: str = "", detail: str = ""
    ) -> AsyncIterator[Line]:
        """Do something, and write to the audit log how it went; errors go on to the person.

        What is known only afterwards can be written into the line that this gives.
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
            outcome, line.detail = Outcome.FAILED, "The service failed; its log tells what."
            raise
        finally:
            await self.parts.audit(
                self, action, line.target, owner=owner, outcome=outcome, detail=line.detail
            )

    async def deny(
        self, target: str, error: PortalError, owner: str = "", detail: str = ""
    ) -> NoReturn:
        """Write that this person asked for what is not theirs; always raises ``error``."""
        await self.parts.audit(
            self,
            "denied",
            target,
            owner=owner,
            outcome=Outcome.REFUSED,
            detail=f"{self._summary} {detail}".strip(),
        )
        raise error

    async def failed(self, action: str, target: str, error: PortalError) -> NoReturn:
        """Write that the action did not work; always raises ``error``."""
        async with self.audited(action, target):
            raise error
        raise AssertionError  # for mypy: a context manager could have kept the error

    @property
    def _summary(self) -> str:
        return self.operation.summary if self.operation else ""

    def done(self, message: str) -> Done:
        """The answer; and the page of everyone is renewed without waiting for its interval."""
        task = asyncio.ensure_future(self._refresh())
        _refreshes.add(task)
        task.add_done_callback(_refreshes.discard)
        if self.parts.store.error:
            message += (
                " The portal's database does not answer, so the line of the audit log is in the "
                "service's log only."
            )
        return Done(message=message)

    async def _refresh(self) -> None:
        try:
            await self.parts.dashboard.refreshed()
        except Exception:
            self.parts.log.exception("The refresh after an action failed")

    # -- the things that are acted on ----------------------------------------------------------

    async def session(self, id_: str, needs: str, action: str = "") -> SessionRecord:
        """The session, when it is this person's own or ``needs`` is held.

        Raises NotFound where this person may not know of it, NotAllowed where they may. The audit
        log has that as "denied"; where who may asks for one that is not there, as a failed
        ``action``, if there is one.
        """
        record = await self._record(id_)
        if record is not None and (record.user == self.person.name or self.person.may(needs)):
            return record
        target, nothing = f"session {id_}", NotFound("You have no such session.")
        if record is None and self.person.may(needs):
            if action:
                await self.failed(action, target, nothing)
            raise nothing
        owner = record.user if record else ""
        if record is not None and self.person.may(scope.SESSIONS_READ):
            error = NotAllowed(f"This session is not yours; this needs the scope '{needs}'.")
            await self.deny(target, error, owner, f"Needs {needs}.")
        known = "It is somebody else's." if record else "There is none."
        await self.deny(target, nothing, owner, known)

    async def _record(self, id_: str) -> SessionRecord | None:
        """While the database is away, the dashboard still knows the living ones."""
        try:
            return await self.parts.store.sessions.get(id_)
        except StoreUnavailable:
            for record in self.view.sessions.values():
                if record.id == id_:
                    return record
            raise

    async def job(self, id_: str, action: str, *, own: bool) -> JobItem:
        """The job with its owner's name, when JOBS_MANAGE is held or, with ``own``, it is theirs.

        Raises NotFound for a job that Slurm did not have at the last look, NotAllowed; in the
        audit log as ``session`` says.
        """
        target, job = f"job {id_}", self.view.jobs.get(id_)
        may = self.person.may(scope.JOBS_MANAGE)
        if job is None:
            error = NotFound(f"Slurm has no job {id_}, waiting or running.")
            if may:
                await self.failed(action, target, error)
            await self.deny(target, error, detail="There is none.")
        seen = self.parts.dashboard.job_for(self.person, id_)
        if may or (own and seen is not None and seen.mine):
            return job
        await self.deny(
            target,
            NotAllowed(f"Job {id_} is not yours; this needs the scope '{scope.JOBS_MANAGE}'."),
            job.user or "",
            f"Needs {scope.JOBS_MANAGE}.",
        )


class SessionAction(Action):
    """Base of what may end a session."""

    async def stop(self, record: SessionRecord) -> None:
        """End a session, through the Hub where its server is the one that the Hub has now."""
        if await self._is_newest(record):
            with contextlib.suppress(NotFound):
                await self.parts.hub.stop_server(
                    record.user, record.server, on_behalf_of=self.person.name
                )
                return
        # The Hub has lost it, or has another in its place; its job may still be there.
        if record.job_id not in self.view.jobs:
            raise Conflict("This session is over already.")
        await self.parts.control.cancel(record.job_id, record.account or record.user)

    async def _is_newest(self, record: SessionRecord) -> bool:
        """Whether the Hub, asked to stop the server of this name, stops this session."""
        try:
            living, _ = await self.parts.store.sessions.find(
                user=record.user, ended=False, limit=500
            )
        except StoreUnavailable:
            living = [one for one in self.view.sessions.values() if one.user == record.user]
        same = [one for one in living if one.server == record.server]
        return not any(one.submitted_at > record.submitted_at for one in same)
