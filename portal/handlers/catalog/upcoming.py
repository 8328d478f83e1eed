"""``api/v1/upcoming-environments``: the progress of environments that are not offered yet."""

from __future__ import annotations

from portal.catalog.offers.upcoming import Upcoming, upcoming
from portal.models import Frozen
from portal.models.scope import ENVIRONMENTS_MANAGE

from ..base.endpoint import Endpoint, Operation
from .items import as_seen_by_catalog


class UpcomingList(Frozen):
    """Environments that are built or tested for the first time, the oldest first."""

    items: tuple[Upcoming, ...]


class UpcomingEnvironments(Endpoint):
    """Progress of environments that are not offered yet."""

    path = "upcoming-environments"

    @Operation("Environments that are built or tested for the first time.")
    async def on_get(self) -> UpcomingList:
        """Return those that you will see. Users who do not manage environments get an empty list
        unless the site shows them (c.EnvironmentCatalog.show_upcoming)."""
        await self.parts.catalog.load()
        items = await upcoming(
            self.parts.catalog,
            self.parts.store,
            as_seen_by_catalog(self.person),
            curates=self.person.may(ENVIRONMENTS_MANAGE),
        )
        return UpcomingList(items=tuple(items))


ENDPOINTS = (UpcomingEnvironments,)
