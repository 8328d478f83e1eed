"""``api/v1/session/models``: endpoints of a session's user, for ``portal-serve`` in a terminal.

The session's token may use these addresses alone; what they do is what their user may do.
"""

from __future__ import annotations

from portal.errors import NotAllowed
from portal.handlers.base.own_session import OwnSession
from portal.launch.kinds import kind_of

from .action import EndpointAction
from .catalog.endpoints import CatalogOfModels
from .endpoints import Endpoints, EndpointShares, EndpointVersions, OneEndpoint
from .kind import ServingReplica


class ModelsOfSession(OwnSession, EndpointAction):
    """Base class: a session that may serve models, as it may start runs."""

    async def admit(self) -> None:
        """Raise NotAllowed for a session of another kind, or of a space without endpoints."""
        await super().admit()
        record = await self.own_record()
        kind = kind_of(record)
        if not kind.job_kernels:
            raise NotAllowed(
                f"Endpoints are not offered in {kind.title}. Serve models in a JupyterLab session "
                "of your own."
            )
        if record.space:
            stored = await self.parts.memberships.space(record.space)
            if reason := ServingReplica.not_offered(stored.space):
                raise NotAllowed(reason)


class SessionModels(ModelsOfSession, Endpoints):
    """Endpoints that the session's user has or may use."""

    path = "session/models"


class SessionModel(ModelsOfSession, OneEndpoint):
    """Endpoint of the session's user."""

    path = "session/models/{name}"


class SessionModelVersions(ModelsOfSession, EndpointVersions):
    """Versions of an endpoint of the session's user."""

    path = "session/models/{name}/versions"


class SessionModelShares(ModelsOfSession, EndpointShares):
    """Shares of the traffic of an endpoint of the session's user."""

    path = "session/models/{name}/shares"


class SessionModelCatalog(ModelsOfSession, CatalogOfModels):
    """Catalog of models, for the session's user."""

    path = "session/model-catalog"


# The more general address is last.
ENDPOINTS = (
    SessionModelCatalog,
    SessionModelShares,
    SessionModelVersions,
    SessionModel,
    SessionModels,
)
