"""``api/v1/environments/NAME/favourite``: environments that a person wants to find first."""

from __future__ import annotations

import time

from ..base.endpoint import Endpoint, Operation
from .environments import as_seen_by_catalog


class Favourite(Endpoint):
    """Favourite mark of an environment."""

    path = "environments/{environment}/favourite"
    parameters = {"environment": "[a-z0-9][a-z0-9._-]{0,62}"}

    @Operation("Add an environment to the favourites.")
    async def on_put(self, environment: str) -> None:
        """Show it first in your catalog and on your launch page."""
        await self.parts.catalog.load()
        visible = self.parts.catalog.get(environment, as_seen_by_catalog(self.person))
        await self.parts.store.favourites.set(self.person.name, visible.name, time.time())

    @Operation("Remove an environment from the favourites.")
    async def on_delete(self, environment: str) -> None:
        """Remove the mark; no effect if it is not a favourite."""
        await self.parts.store.favourites.remove(self.person.name, environment)


ENDPOINTS = (Favourite,)
