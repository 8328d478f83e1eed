"""Choices for a new run, for the dialog in JupyterLab: environments, fields and estimates."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from portal.catalog.availability import UNTYPED
from portal.catalog.offers.in_space import environments_in
from portal.errors import NotAllowed, SlurmUnavailable
from portal.handlers.base.endpoint import Operation
from portal.handlers.sessions.estimates import EstimateBody, running_options
from portal.handlers.sessions.job_estimates import JobEstimates
from portal.launch.availability import availability
from portal.launch.choices.dialog_fields import DialogField, fields_of_run
from portal.launch.choices.field_choices import Facts
from portal.launch.fields import IN_SPACES
from portal.launch.kinds.kind import AskedFor
from portal.launch.partitions import allowed_partitions
from portal.models import Frozen
from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import ClusterSnapshot
from portal.models.person import Person
from portal.models.session.estimate import StartAnswer
from portal.models.session.resources import Resources
from portal.models.session.session import SessionRecord
from portal.models.space import StoredSpace
from portal.work.kernel.environments import kernel_names
from portal.work.run.kind import Run as RunKind
from portal.work.run.parts import RunParts

from .start import RunsOfSession

if TYPE_CHECKING:
    from portal.assembly import Services


class RunEnvironment(Frozen):
    """Environment for a run. ``gpu_types``: those of the cluster on which its test passed;
    ``default``: its default resources; ``kernels``: the names of its kernels, empty if they are
    not known."""

    environment: str
    title: str
    gpu_types: tuple[str, ...]
    default: Resources
    kernels: tuple[str, ...] = ()


class RunChoices(Frozen):
    """Environments in the order of the launch page, or the one that is set for the session;
    ``environment``: the session's own. ``fields``: those of a point's resources, with what the user
    can choose; ``points``: the maximum number of points of a run. ``pages``: the address of the
    pages of runs, to which a run's id is appended. ``simulated``: the GPUs of the cluster are
    simulated, for a demo."""

    items: tuple[RunEnvironment, ...]
    environment: str
    fields: tuple[DialogField, ...]
    points: int
    pages: str
    simulated: bool = False


class SessionRunChoices(RunsOfSession):
    """Choices for a run that the session starts."""

    path = "session/runs/choices"

    @Operation("List environments and fields for a run.")
    async def on_get(self) -> RunChoices:
        """Use the session's own token only; refused in sessions that do not allow it,
        in rooms, and the like, and on sites without runs."""
        record, parts = await self.own_record(), self.parts
        stored = await self.space(record)
        if not parts.parts_for(RunParts).limits.per_user:
            raise NotAllowed("Runs are not offered on this site.")
        nodes = self.view.snapshot.nodes.values()
        types = {pool.type for node in nodes for pool in node.gpus}
        await parts.catalog.load()
        environments = await self._environments(record, stored)
        return RunChoices(
            items=tuple(
                [await environment_item(parts, environment, types) for environment in environments]
            ),
            environment=record.environment,
            fields=tuple(
                field
                for field in fields_of_run(
                    await facts_for(parts, self.view.snapshot, _owner(record)),
                    running_options(record),
                )
                if stored is None or field.name in IN_SPACES
            ),
            points=parts.parts_for(RunParts).limits.points,
            pages=f"{parts.hub_host}{parts.prefix}runs/",
            simulated=parts.telemetry.simulated,
        )

    async def _environments(
        self, record: SessionRecord, stored: StoredSpace | None
    ) -> list[Environment]:
        """Return the environments that the owner may use; of a space, its own."""
        if stored is None:
            return list(self.parts.catalog.visible_to(_owner(record)))
        own = await environments_in(self.parts.catalog, stored, _owner(record))
        return [
            RunKind.narrowed(known, stored.space, AskedFor(), gpus=True) for known in own.values()
        ]


class SessionRunEstimates(RunsOfSession, JobEstimates):
    """Estimated start of a run's first point, before the run is started."""

    path = "session/runs/estimates"
    kind = RunKind

    @Operation(
        "Estimate when the first point of a run would start. Needs the session's own token.",
        body=EstimateBody,
        errors=(429,),
    )
    async def on_post(self) -> StartAnswer:
        """Return the outlook "refused" and the reason for what may not be asked for."""
        record = await self.own_record()
        self.stored = await self.space(record)
        usual = {**running_options(record), "environment": record.environment}
        return await self.answered(_owner(record), {**usual, **self.body.options})


async def facts_for(parts: Services, snapshot: ClusterSnapshot, person: Person) -> Facts:
    """Return the facts by which the fields of a job of ``person`` have their choices."""
    now = time.time()
    try:
        associations = await parts.cluster.associations(person.name)
    except SlurmUnavailable:
        associations = None
    partitions = allowed_partitions(person, snapshot, associations)
    supply = availability(snapshot, [partition.name for partition in partitions], now)
    simulated = supply.gpus if parts.telemetry.simulated else ()
    return Facts(snapshot, supply, associations, person, now, simulated)


async def environment_item(
    parts: Services, environment: Environment, cluster_types: set[str]
) -> RunEnvironment:
    """Return an environment to choose. ``cluster_types``: the cluster's GPU types."""
    types = parts.catalog.offering.gpu_types(environment, cluster_types)
    return RunEnvironment(
        environment=environment.name,
        title=environment.title,
        gpu_types=tuple(
            name
            for name in types
            if name != UNTYPED and (not environment.gpu_types or name in environment.gpu_types)
        ),
        default=environment.default,
        kernels=await kernel_names(parts, environment),
    )


def _owner(record: SessionRecord) -> Person:
    return Person(name=record.user, groups=record.groups)


ENDPOINTS = (SessionRunChoices, SessionRunEstimates)
