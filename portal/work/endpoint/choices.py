"""``api/v1/model-choices``: what can be chosen for a version of an endpoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from portal.catalog.offers.in_space import environments_in
from portal.errors import NotAllowed
from portal.handlers.base.endpoint import Operation, Query
from portal.handlers.catalog.environments import as_seen_by_catalog
from portal.handlers.sessions.estimates import EstimateBody
from portal.launch.choices.dialog_fields import DialogField, fields_of_run
from portal.launch.fields import FIELDS, IN_SPACES
from portal.launch.kinds.kind import AskedFor
from portal.models import Frozen
from portal.models.catalog.environment import Environment
from portal.models.person import Person
from portal.models.session.estimate import StartAnswer
from portal.models.space import StoredSpace
from portal.spaces.registry import type_of
from portal.work.replicas.parts import ReplicaParts
from portal.work.run.endpoints.choices import RunEnvironment, environment_item, facts_for

from .action import EndpointAction
from .keeping.spaces import working_in
from .kind import ServingReplica

# A replica is a job on one node.
_ALL = frozenset(field.name for field in FIELDS) - {"nodes"}


class ChoicesQuery(Query):
    """Project for which a model is to be served."""

    project: Annotated[str, Field(max_length=40, description='"": your own.')] = ""


class EstimateForProject(EstimateBody):
    """Options of a replica; ``project``: for which it is, "" for yourself."""

    project: Annotated[str, Field(max_length=40)] = ""


class ProjectChoice(Frozen):
    """Project of the person, as its member."""

    name: str
    title: str


class ModelChoices(Frozen):
    """Environments in the order of the launch page; ``fields``: those of a replica's resources;
    ``groups``: the person's own; ``projects``: in which they work; ``most``: replicas of a user;
    ``names``: of their endpoints; ``simulated``: the GPUs of the cluster are simulated, for a demo.
    """

    items: tuple[RunEnvironment, ...]
    fields: tuple[DialogField, ...]
    groups: tuple[str, ...]
    projects: tuple[ProjectChoice, ...]
    most: int
    names: tuple[str, ...]
    simulated: bool = False


class EndpointChoices(EndpointAction):
    """Choices for a version."""

    path = "model-choices"
    parameters = {}

    @Operation("List environments and fields for a version of an endpoint.", query=ChoicesQuery)
    async def on_get(self) -> ModelChoices:
        """Refused on sites without a gateway or replicas."""
        self.check_offered()
        most = self.parts_for(ReplicaParts).limits.per_user
        if not most:
            raise NotAllowed("Replicas are not offered on this site (c.Replicas.per_user).")
        stored = await self.for_project(self.query.project)
        parts, snapshot = self.parts, self.view.snapshot
        person = as_seen_by_catalog(self.person)
        await parts.catalog.load()
        types = {pool.type for node in snapshot.nodes.values() for pool in node.gpus}
        facts = await facts_for(parts, snapshot, person)
        offered = _ALL if stored is None else IN_SPACES | type_of(stored.space).more_choices
        mine = await parts.memberships.mine(self.person.name)
        titles = {name: mine[name].stored.space.title for name in working_in(mine)}
        return ModelChoices(
            items=tuple(
                [
                    await environment_item(parts, known, types)
                    for known in await self._environments(person, stored)
                ]
            ),
            fields=tuple(each for each in fields_of_run(facts, {}) if each.name in offered),
            groups=tuple(sorted(self.person.groups)),
            projects=tuple(
                ProjectChoice(name=name, title=title)
                for name, title in sorted(titles.items(), key=lambda pair: pair[1].casefold())
            ),
            most=most,
            names=tuple(
                each.name for each in await self.table.every() if each.user == self.person.name
            ),
            simulated=parts.telemetry.simulated,
        )

    async def _environments(
        self, person: Person, stored: StoredSpace | None
    ) -> Sequence[Environment]:
        """Return the environments that the person may use; of a project, its own."""
        if stored is None:
            return self.parts.catalog.visible_to(person)
        try:
            own = await environments_in(self.parts.catalog, stored, person)
        except NotAllowed:  # none can be used now: the dialog shows that there is none
            return ()
        narrow = ServingReplica.narrowed
        return [narrow(known, stored.space, AskedFor(), gpus=True) for known in own.values()]


class EndpointEstimates(EndpointAction):
    """Expected start of a replica, before its version is added."""

    path = "model-estimates"
    parameters = {}

    @Operation("Estimate when a replica would start.", body=EstimateForProject, errors=(429,))
    async def on_post(self) -> StartAnswer:
        """Return the outlook "refused" and the reason for what may not be asked for."""
        self.stored = await self.for_project(self.body.project)
        return await self.answered(as_seen_by_catalog(self.person), self.body.options)


ENDPOINTS = (EndpointChoices, EndpointEstimates)
