"""``api/v1/model-choices``: what can be chosen for a version of an endpoint."""

from __future__ import annotations

from portal.errors import NotAllowed
from portal.handlers.base.endpoint import Operation
from portal.handlers.catalog.environments import as_seen_by_catalog
from portal.launch.choices.dialog_fields import DialogField, fields_of_run
from portal.models import Frozen
from portal.work.replicas.parts import ReplicaParts
from portal.work.run.endpoints.choices import RunEnvironment, environment_item, facts_for

from .action import EndpointAction

_ONE_NODE = {"nodes"}  # a replica is a job on one node


class ModelChoices(Frozen):
    """Environments in the order of the launch page; ``fields``: those of a replica's resources;
    ``groups``: the person's own; ``most``: replicas of a user; ``names``: of their endpoints;
    ``simulated``: the GPUs of the cluster are simulated, for a demo."""

    items: tuple[RunEnvironment, ...]
    fields: tuple[DialogField, ...]
    groups: tuple[str, ...]
    most: int
    names: tuple[str, ...]
    simulated: bool = False


class EndpointChoices(EndpointAction):
    """Choices for a version."""

    path = "model-choices"
    parameters = {}

    @Operation("List environments and fields for a version of an endpoint.")
    async def on_get(self) -> ModelChoices:
        """Refused on sites without a gateway or replicas."""
        self.check_offered()
        most = self.parts_for(ReplicaParts).limits.per_user
        if not most:
            raise NotAllowed("Replicas are not offered on this site (c.Replicas.per_user).")
        parts, snapshot = self.parts, self.view.snapshot
        person = as_seen_by_catalog(self.person)
        await parts.catalog.load()
        types = {pool.type for node in snapshot.nodes.values() for pool in node.gpus}
        facts = await facts_for(parts, snapshot, person)
        return ModelChoices(
            items=tuple(
                [
                    await environment_item(parts, known, types)
                    for known in parts.catalog.visible_to(person)
                ]
            ),
            fields=tuple(each for each in fields_of_run(facts, {}) if each.name not in _ONE_NODE),
            groups=tuple(sorted(self.person.groups)),
            most=most,
            names=tuple(
                each.name for each in await self.table.every() if each.user == self.person.name
            ),
            simulated=parts.telemetry.simulated,
        )


ENDPOINTS = (EndpointChoices,)
