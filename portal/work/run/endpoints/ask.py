"""Parameters of a search's point, for the task of its job that asks for them."""

from __future__ import annotations

from collections.abc import Mapping

from portal.handlers.base.endpoint import Operation
from portal.models import Frozen
from portal.models.session.run import PointNumber
from portal.models.session.search import ParameterValue
from portal.work.run.parts import RunParts

from .reports import PointHandler


class AskedPoint(Frozen):
    """Number of the ``point``, from 0."""

    point: PointNumber


class PointParameters(Frozen):
    """Values of the searched parameters by name."""

    parameters: Mapping[str, ParameterValue]


class PointQuestion(PointHandler):
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
        run = await self.run_of_job()
        return PointParameters(
            parameters=await self.parts_for(RunParts).searches.ask(run, self.body.point)
        )


ENDPOINTS = (PointQuestion,)
