"""``api/v1/workers``: an endpoint of the site's own work."""

from __future__ import annotations

from portal.handlers.base.endpoint import Endpoint, Operation
from portal.models import Frozen


class WorkerWords(Frozen):
    """Sentence about the workers."""

    message: str


class WorkerAbout(Endpoint):
    """What the site says of its workers."""

    path = "workers"

    @Operation("Get what this site says of its workers.")
    async def on_get(self) -> WorkerWords:
        """Return a sentence."""
        return WorkerWords(message=f"Workers of {self.person.name}.")


ENDPOINTS = (WorkerAbout,)
