"""``api/v1/projects/{project}/endpoints``: models served for a project, or shared with it."""

from __future__ import annotations

import time
from collections import Counter

from portal.handlers.base.endpoint import Operation
from portal.models import Frozen
from portal.work.endpoint.bodies import EndpointState
from portal.work.endpoint.details import endpoint_state, states_of
from portal.work.endpoint.figures import KEPT, EndpointFigureTable, Totals
from portal.work.endpoint.keeping.handover import ReplicaState
from portal.work.endpoint.models import Endpoint
from portal.work.endpoint.tables import EndpointReplicaTable, EndpointTable

from .access import ProjectAction
from .models import WORKERS


class ProjectEndpoint(Frozen):
    """Endpoint of a project. ``address``: path at the portal's host; ``ready``: replicas that
    answer; ``problem``: why it does not, or gets no more of them; ``shared``: the project is not
    charged for it, and its ``requests`` and ``gpu_hours``, of the last week, are null."""

    name: str
    owner: str
    address: str
    state: EndpointState
    ready: int
    problem: str
    shared: bool
    requests: int | None
    gpu_hours: float | None
    active_at: float


class ProjectEndpointList(Frozen):
    """Endpoints that members of a project may use, by name."""

    items: tuple[ProjectEndpoint, ...]


class ProjectEndpoints(ProjectAction):
    """Endpoints of a project, for those who work in it, and admins."""

    path = "projects/{project}/endpoints"
    roles = WORKERS

    @Operation("List the endpoints of a project.")
    async def on_get(self, project: str) -> ProjectEndpointList:
        """Return those that are served for it, and those that are shared with it."""
        store = self.parts.store
        found = await store.table(EndpointTable).of_project(project)
        states = states_of(await store.table(EndpointReplicaTable).living()) if found else {}
        own = [each for each in found if each.project == project]
        totals = await store.table(EndpointFigureTable).totals(own, time.time() - KEPT)

        def item(each: Endpoint) -> ProjectEndpoint:
            had = totals.get(each.name, Totals()) if each.project == project else None
            state = states.get(each.name, Counter())
            return ProjectEndpoint(
                name=each.name,
                owner=each.user,
                address=f"{self.parts.prefix}models/{each.name}/",
                state=endpoint_state(each, state),
                ready=state[ReplicaState.READY],
                problem=each.problem,
                shared=each.project != project,
                requests=None if had is None else had.requests,
                gpu_hours=None if had is None else had.gpu_hours,
                active_at=each.active_at,
            )

        return ProjectEndpointList(items=tuple(map(item, found)))


ENDPOINTS = (ProjectEndpoints,)
