"""Parameters of a search's point, for the task of its job that asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from portal.errors import Conflict, InvalidRequest, NotAllowed
from portal.launch.kinds import of_server
from portal.models import Frozen
from portal.models.session.run import PointNumber
from portal.models.session.search import ParameterValue

from ..base.action import Action
from ..base.endpoint import Operation
from ..base.own_session import OwnSession


class AskedPoint(Frozen):
    """Number of the ``point``, from 0."""

    point: PointNumber


class PointParameters(Frozen):
    """Values of the searched parameters by name."""

    parameters: Mapping[str, ParameterValue]


class PointQuestion(OwnSession):
    """Question of a point for its parameters, by its own job."""

    path = "session/points/ask"

    @Operation(
        "Get the parameters of a point of a search. Needs the token of the run's job.",
        body=AskedPoint,
        errors=(409,),
    )
    async def on_post(self) -> PointParameters:
        """Choose them by the results of the points before, at the first request; each further one
        for the same point has the same answer."""
        server, number = self.server or "", self.body.point
        kind, run = of_server(server), None
        if kind is not None and kind.array:  # no other asks the database
            run = await self.parts.run_reports.of_server(self.person.name, server)
        if run is None:
            raise NotAllowed("This token is not that of a run's job.")
        if number >= run.points:
            raise InvalidRequest(f"This run has the points 0 to {run.points - 1}.", "point")
        if run.ended_at is not None:
            raise Conflict("This run has already ended.")
        return PointParameters(parameters=await self.parts.run_searches.ask(run, number))

    async def hub_model(self) -> Any:
        """Return the Hub's model of the job's token, which is cached, as for reports."""
        return await Action.hub_model(self)


ENDPOINTS = (PointQuestion,)
