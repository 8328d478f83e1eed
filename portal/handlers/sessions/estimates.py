"""``api/v1/estimates``: when a session would start, and how wrong such estimates were.

The launch page asks the Hub (spawners/api/estimates.py), since launches work without this service;
these endpoints are for programs, and for sessions before they change their resources.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import Field, WithJsonSchema

from portal.errors import NotAllowed, SlurmUnavailable
from portal.estimates.errors import error_of, errors
from portal.launch.fields import INHERITED, document
from portal.launch.policy import decide
from portal.launch.request import Asked, LaunchRequest
from portal.models import Frozen
from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import Association, ClusterSnapshot
from portal.models.person import Person
from portal.models.scope import USAGE_READ
from portal.models.session.estimate import EstimateError, StartAnswer
from portal.models.session.session import SessionRecord

from ..base.endpoint import Endpoint, Operation, Query
from ..base.own_session import OwnSession
from ..catalog.environments import as_seen_by_catalog

_JOBS_MAY_BE_OLD = 15  # seconds


class EstimateBody(Frozen):
    """Options of a launch to estimate: ``environment`` and resources."""

    options: Annotated[dict[str, Any], WithJsonSchema(document())] = {}


class ErrorsQuery(Query):
    """Number of past days."""

    days: Annotated[int, Field(ge=1, le=400)] = 30


class EstimateErrors(Frozen):
    """Errors of past estimates: all together, and by partition and basis."""

    days: int
    total: EstimateError
    items: tuple[EstimateError, ...]


class Decided(NamedTuple):
    """Request of a launch, and the facts by which it was decided."""

    request: LaunchRequest
    snapshot: ClusterSnapshot
    associations: Sequence[Association] | None


class EstimatesBase(Endpoint):
    """Base class of estimates before a launch."""

    async def answered(self, person: Person, options: dict[str, Any]) -> StartAnswer:
        """Return the answer for ``options``.

        Raises InvalidRequest, TooManyRequests, SlurmUnavailable.
        """
        estimates = self.parts.estimates
        estimates.admit(person.name)
        try:
            decided = await self.decided(person, options)
        except NotAllowed as error:
            return estimates.refusal(error)
        request, snapshot, associations = decided
        return await estimates.answer(request, person, snapshot, associations)

    async def decided(self, person: Person, options: dict[str, Any]) -> Decided:
        """Return what a launch with ``options`` would be.

        Raises InvalidRequest, NotAllowed, SlurmUnavailable.
        """
        parts = self.parts
        choice = Asked.parse(options)
        await parts.catalog.load()
        moment = time.monotonic() - _JOBS_MAY_BE_OLD
        snapshot = await parts.cluster.snapshot(moment, jobs_only=False, qos=True)
        try:
            associations = await parts.cluster.associations(person.name)
        except SlurmUnavailable:
            associations = None
        environments = await self.environments(person, choice, snapshot, associations)
        request = decide(
            choice, person, environments, snapshot, associations, parts.default_resources
        )
        return Decided(request, snapshot, associations)

    async def environments(
        self,
        person: Person,
        asked: Asked,
        snapshot: ClusterSnapshot,
        associations: Sequence[Association] | None,
    ) -> dict[str, Environment]:
        """Return the environments that ``person`` may use, by name, once the catalog is loaded.
        Raises InvalidRequest, NotAllowed for what such a session may not ask for."""
        return {known.name: known for known in self.parts.catalog.visible_to(person)}


class Estimates(EstimatesBase):
    """Estimates for people and their programs."""

    path = "estimates"

    @Operation(
        "Estimate when a session with these options would start.", body=EstimateBody, errors=(429,)
    )
    async def on_post(self) -> StartAnswer:
        """Return the outlook "refused" and the reason for what may not be asked for."""
        person = as_seen_by_catalog(self.person)
        return await self.answered(person, self.body.options)


class SessionEstimates(OwnSession, EstimatesBase):
    """Estimates for a session, from the inside, with its own token."""

    path = "session/estimates"

    @Operation(
        "Estimate when this session could have these resources instead. "
        "Needs the session's own token.",
        body=EstimateBody,
        errors=(429,),
    )
    async def on_post(self) -> StartAnswer:
        """Keep the environment, as in a move, and account and QOS unless they are named."""
        record, _ = await self.own()
        defaults = {
            key: record.options[key] for key in INHERITED if record.options.get(key) is not None
        }
        options = {**defaults, **self.body.options, "environment": record.environment}
        return await self.answered(Person(name=record.user, groups=record.groups), options)


def running_options(record: SessionRecord) -> dict[str, Any]:
    """Return what a job has of the session that asks for it unless something else is asked for:
    the account that pays, for one. A space sets that itself."""
    if record.space:
        return {}
    return {key: record.options[key] for key in INHERITED if record.options.get(key) is not None}


class PastEstimates(Endpoint):
    """Errors of past estimates."""

    path = "estimates/errors"

    @Operation(
        "Errors of the estimates recorded at launch, by partition and source.",
        query=ErrorsQuery,
        scope=USAGE_READ,
    )
    async def on_get(self) -> EstimateErrors:
        days = self.query.days
        outcomes = await self.parts.store.estimates.outcomes(time.time() - days * 86_400)
        return EstimateErrors(days=days, total=error_of(outcomes), items=tuple(errors(outcomes)))


ENDPOINTS = (Estimates, SessionEstimates, PastEstimates)
