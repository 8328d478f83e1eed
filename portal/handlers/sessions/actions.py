"""Actions on sessions, jobs and nodes: checked here, whatever the page has shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from pydantic import StringConstraints

from portal.errors import Conflict, NotFound
from portal.launch.kinds import kind_of
from portal.models import Frozen, scope
from portal.models.audit import AuditAction, AuditedAction
from portal.models.cluster.cluster import JobState
from portal.models.cluster.dashboard import JobItem
from portal.models.plain_text import PLAIN_LINE
from portal.models.session.session import SessionState
from portal.sessions.links import server_url
from portal.slurm.control.control import JOB_ID, NODE_NAME

from ..base.action import Action, Confirmation, SessionAction
from ..base.endpoint import Operation
from ..base.entry import ServerAddress, enter, is_click
from ..base.own_session import OwnSession

SESSION_ID = r"[A-Za-z0-9_-]{1,64}"
_LONGEST_REASON = 200


class ActionReason(Frozen):
    """Reason for the audit log."""

    reason: Annotated[
        str,
        StringConstraints(strip_whitespace=True, max_length=_LONGEST_REASON),
        *PLAIN_LINE,
    ] = ""


class DrainReason(Frozen):
    """Reason for draining. Slurm shows it to everyone, behind the admin's name."""

    reason: Annotated[
        str,
        StringConstraints(strip_whitespace=True, min_length=1, max_length=_LONGEST_REASON),
        *PLAIN_LINE,
    ]


class StopSession(SessionAction):
    """Stop of one's own session, or with ``custom:portal:jobs:manage`` of anyone's."""

    path = "sessions/{session_id}/stop"
    parameters = {"session_id": SESSION_ID}

    @Operation("Stop a session.", body=ActionReason, errors=(409,))
    async def on_post(self, session_id: str) -> Confirmation:
        """Stop your own, or with custom:portal:jobs:manage anyone's."""
        async with self.on_session(
            session_id, scope.JOBS_MANAGE, AuditAction.STOP_SESSION
        ) as record:
            if record.state is SessionState.ENDED:
                raise Conflict("This session has already ended.")
            await self.stop(record)
        return self.done("The session is being stopped.")


class StopOwnSession(SessionAction, OwnSession):
    """Stop of the session that asks, for its owner."""

    path = "session/stop"

    @Operation("Stop the calling session.", errors=(409,))
    async def on_post(self) -> Confirmation:
        """Use the session's own token only."""
        record, _ = await self.own()
        async with self.audited(AuditAction.STOP_SESSION, f"session {record.id}", record.user):
            await self.stop(record)
        return self.done("The session is being stopped.")


class OpenSession(Action):
    """Access to someone's server: the Hub checks it again (``access:servers``)."""

    path = "sessions/{session_id}/open"
    parameters = {"session_id": SESSION_ID}

    @Operation("Open a session's server.", body=ActionReason, errors=(409,))
    async def on_post(self, session_id: str) -> ServerAddress:
        """Open your own, or with custom:portal:servers:open anyone's; the Hub checks it again."""
        async with self.on_session(
            session_id, scope.SERVERS_OPEN, AuditAction.OPEN_SERVER
        ) as record:
            if record.state is not SessionState.RUNNING:
                raise Conflict(f"This session's server is not running: it is {record.state}.")
            if not kind_of(record).serves:
                raise Conflict("This kernel has no page. Open the session with its notebook.")
            if record.user != self.person.name and is_click(self):
                await enter(self, record.user, record.server)
        return ServerAddress(url=server_url(record, self.parts.base))


class CancelJob(SessionAction):
    """Cancellation of a job: one's own as oneself, others' as the portal's Slurm account."""

    path = "jobs/{job_id}/cancel"
    parameters = {"job_id": JOB_ID}

    @Operation("Cancel a job.", body=ActionReason, errors=(409,))
    async def on_post(self, job_id: str) -> Confirmation:
        """Cancel your own, or with custom:portal:jobs:manage anyone's.

        The job of a portal session is stopped through the Hub.
        """
        job = await self.job(job_id, AuditAction.CANCEL_JOB, own=True)
        owner = job.user or ""
        record = self.view.sessions.get(job_id)
        if record is not None and record.job_id == job_id:  # else it is a task of an array
            session = f"session {record.id}"
            async with self.audited(
                AuditAction.STOP_SESSION, session, record.user, self.body.reason
            ):
                await self.stop(record)
            return self.done(f"Job {job_id} is a session of the portal; it is being stopped.")
        async with self.audited(AuditAction.CANCEL_JOB, f"job {job_id}", owner, self.body.reason):
            if owner == self.person.name:
                await self.parts.control.cancel(job_id, self.person.name)
            else:
                await self.parts.control.need("jobs")
                await self.parts.control.cancel(job_id)
        return self.done(f"Job {job_id} is being cancelled.")


class WaitingJob(Action):
    """Base class of actions on a job that waits."""

    parameters = {"job_id": JOB_ID}

    async def give(
        self,
        action: AuditedAction,
        job_id: str,
        order: Callable[[str], Awaitable[None]],
        result: str,
    ) -> Confirmation:
        """Give Slurm the ``order``, with the ``action`` in the audit log; confirm the ``result``.

        Raises what ``job`` does, and Conflict if the job does not wait.
        """
        job = await self.job(job_id, action, own=False)
        async with self.audited(action, f"job {job_id}", job.user or "", self.body.reason):
            _must_wait(job)
            await self.parts.control.need("jobs")
            await order(job_id)
        return self.done(f"Job {job_id} {result}.")


class HoldJob(WaitingJob):
    """Hold: a waiting job stays waiting until it is released."""

    path = "jobs/{job_id}/hold"

    @Operation("Hold a waiting job.", body=ActionReason, scope=scope.JOBS_MANAGE, errors=(409,))
    async def on_post(self, job_id: str) -> Confirmation:
        """Keep it from starting until it is released; its owner cannot release it."""
        result = "is held: it waits until it is released"
        return await self.give(AuditAction.HOLD_JOB, job_id, self.parts.control.hold, result)


class ReleaseJob(WaitingJob):
    """Release of a held job."""

    path = "jobs/{job_id}/release"

    @Operation("Release a held job.", body=ActionReason, scope=scope.JOBS_MANAGE, errors=(409,))
    async def on_post(self, job_id: str) -> Confirmation:
        """Let it start, whether its owner or an admin has held it."""
        return await self.give(
            AuditAction.RELEASE_JOB, job_id, self.parts.control.release, "is released"
        )


class NodeAction(Action):
    """Base class of actions on nodes."""

    parameters = {"node": NODE_NAME}

    def check(self, name: str) -> None:
        """Raise NotFound for a node that Slurm does not have."""
        if name not in self.view.nodes:
            raise NotFound(f"Slurm has no node '{name}'.")


class DrainNode(NodeAction):
    """Drain of a node; jobs that run on it go on."""

    path = "nodes/{node}/drain"

    @Operation("Drain a node.", body=DrainReason, scope=scope.NODES_MANAGE)
    async def on_post(self, node: str) -> Confirmation:
        """Start no new jobs on it; those that run on it go on.

        The portal's Slurm account needs the AdminLevel Administrator, too.
        """
        reason = f"{self.person.name}: {self.body.reason}"
        async with self.audited(AuditAction.DRAIN_NODE, f"node {node}", detail=self.body.reason):
            self.check(node)
            await self.parts.control.need("nodes")
            await self.parts.control.drain(node, reason)
        return self.done(f"Node {node} accepts no new jobs; running jobs continue.")


class ResumeNode(NodeAction):
    """Reverse of draining; a node that is down comes back if its slurmd answers."""

    path = "nodes/{node}/resume"

    @Operation("Resume a node.", body=ActionReason, scope=scope.NODES_MANAGE, errors=(409,))
    async def on_post(self, node: str) -> Confirmation:
        """Let jobs start on it again. Needs what draining needs."""
        async with self.audited(AuditAction.RESUME_NODE, f"node {node}", detail=self.body.reason):
            self.check(node)
            await self.parts.control.need("nodes")
            await self.parts.control.resume(node)
        return self.done(f"Node {node} accepts jobs again.")


def _must_wait(job: JobItem) -> None:
    """Raise Conflict if the job does not wait.

    Slurm 22.05 accepts a hold of a running job, without any visible effect.
    """
    if job.state in JobState.__members__ and not JobState(job.state).pending:
        raise Conflict(f"Job {job.id} is not waiting: {job.words or job.state}.")


ENDPOINTS = (
    *(StopSession, StopOwnSession, OpenSession, CancelJob, HoldJob, ReleaseJob),
    *(DrainNode, ResumeNode),
)
