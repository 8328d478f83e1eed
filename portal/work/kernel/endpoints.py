"""Kernels of a session's notebooks in jobs of their own, for the session that asks for them.

The session requests the job; its program then connects to the session (portal_session/job_kernels).
"""

from __future__ import annotations

import time
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from portal.errors import NotAllowed, NotFound
from portal.handlers.base.action import Confirmation
from portal.handlers.base.endpoint import Operation
from portal.handlers.base.own_session import OwnSession
from portal.handlers.sessions.estimates import EstimateBody, running_options
from portal.handlers.sessions.job_estimates import JobEstimates
from portal.launch.choices.dialog_fields import DialogField, fields_of_move
from portal.launch.fields import FIELDS, IN_SPACES
from portal.launch.kinds import kind_of
from portal.models import Frozen
from portal.models.audit import AuditAction
from portal.models.catalog.environment import Name as EnvironmentName
from portal.models.person import Person
from portal.models.session.chosen_id import ID, LONGEST_ID
from portal.models.session.estimate import StartAnswer
from portal.models.session.resources import Resources
from portal.models.session.session import SessionRecord, SessionState
from portal.models.space import StoredSpace
from portal.spaces.registry import job_space
from portal.work.kernel.environments import KernelEnvironment, kernel_choices
from portal.work.kernel.kind import NAME, OPTION, JobKernel
from portal.work.kernel.settings import JobKernels
from portal.work.kernel.states import JobKernelState, state_of, submitting, unrecorded

_NO_SUCH = "You have no such kernel."


class KernelChoices(Frozen):
    """Environments for kernels in jobs of their own, in the order of the launch page; none where a
    site does not offer such kernels; where the session's is set, that one. ``fields``: those of the
    dialog for their resources; ``options``: all options of a kernel, by name, with the noun of what
    a number counts, "" for text; ``per_user``: the maximum number of a user's kernels at once.
    ``address``: that of the session's node, as other nodes reach it; empty while it is not known.
    ``simulated``: the GPUs of the cluster are simulated, for a demo."""

    items: tuple[KernelEnvironment, ...]
    fields: tuple[DialogField, ...]
    options: dict[str, str]
    per_user: int
    address: str
    simulated: bool = False


class NewJobKernel(Resources):
    """Kernel to start: the ``id`` by which the session knows it, the name of a kernelspec in the
    ``environment``, and resources as for a launch."""

    id: Annotated[
        str,
        StringConstraints(pattern=f"^{ID}$", max_length=LONGEST_ID),
        Field(examples=["5e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162"]),
    ]
    kernel: Annotated[str, StringConstraints(pattern=f"^{NAME}$"), Field(examples=["python3"])]
    environment: EnvironmentName


class StartedKernel(Frozen):
    """Kernel whose job Slurm has. ``server``: the name of its session at the Hub."""

    id: str
    server: str


class JobKernelAction(OwnSession):
    """Base class: the session that asks, and its user's kernels."""

    def check(self, record: SessionRecord) -> None:
        """Raise NotAllowed unless sessions of this kind may have such kernels."""
        kind = kind_of(record)
        if not kind.job_kernels:
            raise NotAllowed(f"Kernels in jobs of their own are not offered in {kind.title}.")

    async def asker(self) -> SessionRecord:
        """Return the session that asks. Raises NotAllowed, Unavailable."""
        record = await self.own_record()
        self.check(record)
        return record

    async def space(self, record: SessionRecord) -> StoredSpace | None:
        """Return the space of the session that asks; None for one of its user alone. Raises
        NotAllowed if the space does not allow such kernels."""
        if not record.space:
            return None
        stored = await self.parts.memberships.space(record.space)
        if reason := JobKernel.not_offered(stored.space):
            raise NotAllowed(reason)
        return stored

    async def kernel(self, id_: str, space: str) -> SessionRecord | None:
        """Return the newest session of this kernel of the user; None without one. ``space``: of
        the session that asks. Helpers are let into that, and must not reach other kernels of its
        owner.

        The view has it without a query, unless it is younger or has ended.
        """
        user, server = self.person.name, JobKernel.server_name(id_)
        living = (
            record
            for record in self.view.sessions.values()
            if (record.user, record.server) == (user, server)
        )
        record = max(living, key=lambda session: session.submitted_at, default=None)
        if record is None:
            records, _ = await self.parts.store.sessions.find(user=user, server=server, limit=1)
            record = records[0] if records else None
        # Of another id, the name of the server can be the same.
        own = record is not None and record.options.get(OPTION, {}).get("id") == id_
        return record if record is not None and own and record.space == space else None


class OwnJobKernels(JobKernelAction):
    """Kernels of the session that asks."""

    path = "session/kernels"

    @Operation("List environments for kernels in jobs of their own.")
    async def on_get(self) -> KernelChoices:
        """Use the session's own token only; refused in sessions that do not allow it,
        in rooms, and the like.

        An environment is listed if its test passed on a GPU type of the cluster, and its kernels
        are known: its definition or its test names them.
        """
        record = await self.asker()
        stored = await self.space(record)
        parts, nodes = self.parts, list(self.view.snapshot.nodes.values())
        types = {pool.type for node in nodes for pool in node.gpus}
        items: tuple[KernelEnvironment, ...] = ()
        if parts.settings.get(JobKernels).per_user:
            items = await kernel_choices(parts, _owner(record), stored, types)
        return KernelChoices(
            items=items,
            fields=tuple(
                field
                for field in fields_of_move(nodes)
                if stored is None or field.name in IN_SPACES
            ),
            options={field.name: field.counts for field in FIELDS},
            per_user=parts.settings.get(JobKernels).per_user,
            address=self._address(record),
            simulated=parts.telemetry.simulated,
        )

    def _address(self, record: SessionRecord) -> str:
        node = self.view.snapshot.nodes.get(record.nodes[0]) if record.nodes else None
        return node.address if node else ""

    @Operation(
        "Start a kernel in a job of its own.", body=NewJobKernel, status=202, errors=(409, 429)
    )
    async def on_post(self) -> StartedKernel:
        """Use the session's own token only; refused in sessions that do not allow it,
        in rooms, and the like.

        The job is checked like a launch of the session's owner; where the session's
        rules and account are set, by these. The answer comes once Slurm has the job, which may
        wait then.
        """
        record = await self.own_record()
        asked: dict[str, Any] = self.body.model_dump(exclude_unset=True)
        id_, name = asked.pop("id"), asked.pop("kernel")
        server = JobKernel.server_name(id_)
        what = f"Kernel {name} of {asked['environment']}, {server}."
        async with self.audited(
            AuditAction.START_KERNEL, f"session {record.id}", record.user, what
        ):
            self.check(record)
            stored = await self.space(record)
            kernel = {"id": id_, "name": name, **(job_space(stored.space).own() if stored else {})}
            options = {**running_options(record), **asked, OPTION: kernel}
            await self.parts.hub.begin_server(record.user, server, options)
        self.done("")
        return StartedKernel(id=id_, server=server)


class KernelEstimates(JobKernelAction, JobEstimates):
    """Estimated start of a kernel, before it is started."""

    path = "session/kernels/estimates"
    kind = JobKernel

    @Operation(
        "Estimate when a kernel in a job of its own would start. Needs the session's own token.",
        body=EstimateBody,
        errors=(429,),
    )
    async def on_post(self) -> StartAnswer:
        """Return the outlook "refused" and the reason for what may not be asked for."""
        record = await self.asker()
        self.stored = await self.space(record)
        return await self.answered(_owner(record), {**running_options(record), **self.body.options})


class OneJobKernel(JobKernelAction):
    """Kernel by its id."""

    path = "session/kernels/{kernel}"
    parameters = {"kernel": ID}

    @Operation("State of a kernel in a job of its own.")
    async def on_get(self, kernel: str) -> JobKernelState:
        """Use the session's own token only. Slurm is not queried for it."""
        asker = await self.asker()
        record = await self.kernel(kernel, asker.space)
        if record is None or record.state is SessionState.ENDED:
            # The Hub knows a new one before the database does.
            state = await self.parts.hub.server_state(
                self.person.name, JobKernel.server_name(kernel)
            )
            if state == "starting":
                return submitting(kernel)
            if record is None:
                if state:
                    return unrecorded(kernel)
                raise NotFound(_NO_SUCH)
        view = self.view
        known = view.sessions.get(record.job_id)
        job = view.jobs.get(record.job_id) if known and known.id == record.id else None
        return state_of(kernel, record, job, time.time(), self.parts.idle.state_of(record.id))

    @Operation("Stop a kernel in a job of its own.", errors=(409,))
    async def on_delete(self, kernel: str) -> Confirmation:
        """Use the session's own token only. A kernel that has ended already is no error."""
        record = await self.own_record()
        user, server = record.user, JobKernel.server_name(kernel)
        async with self.audited(AuditAction.STOP_KERNEL, f"session {record.id}", user, server):
            self.check(record)
            # In a space, first: it may be a kernel of another session of the owner.
            if record.space and await self.kernel(kernel, record.space) is None:
                raise NotFound(_NO_SUCH)
            try:
                await self.parts.hub.stop_server(user, server, on_behalf_of=user)
            except NotFound:
                if await self.kernel(kernel, record.space) is None:
                    raise NotFound(_NO_SUCH) from None
        return self.done("The kernel is being stopped.")


def _owner(record: SessionRecord) -> Person:
    return Person(name=record.user, groups=record.groups)


ENDPOINTS = (OwnJobKernels, KernelEstimates, OneJobKernel)  # 'estimates' is no kernel's id
