"""Pages of endpoints. Not below ``models/``, where the models themselves answer."""

from __future__ import annotations

import contextlib
from typing import Any

from portal.errors import NotFound, StoreUnavailable
from portal.handlers.pages.pages import Page
from portal.models.scope import JOBS_MANAGE, SESSIONS_READ

from .action import usable_by
from .keeping.spaces import working_in
from .models import NAME
from .parts import EndpointParts
from .tables import EndpointTable


class EndpointsPage(Page):
    """Endpoints that a person has or may use."""

    template = "models.html"

    async def variables(self, *segments: str) -> dict[str, Any]:
        """Answer whether the site offers endpoints, and whether the person sees all of them."""
        offered = self.parts_for(EndpointParts).gateway.offered
        return {"models_offered": offered, "sees_all": self.person.may(SESSIONS_READ)}


class EndpointPage(Page):
    """One endpoint: whole for its owner, and for others its address and a trial."""

    template = "model.html"

    async def variables(self, *segments: str) -> dict[str, Any]:
        """Answer 404 if this person may not know of it. While the database is down, the page says
        so itself."""
        name, person = segments[0], self.person
        whole = own = usable = True
        with contextlib.suppress(StoreUnavailable):
            found = await self.parts.store.table(EndpointTable).get(name)
            projects = working_in(await self.parts.memberships.mine(person.name))
            own, usable = found.user == person.name, usable_by(person, found, projects)
            whole = own or person.may(SESSIONS_READ)
            if not (whole or usable):
                raise NotFound(f"There is no endpoint '{name}'.")
        return {
            "model": {
                "name": name,
                "whole": whole,
                "own": own,
                "usable": usable,
                "stops": own or person.may(JOBS_MANAGE),
            }
        }


ENDPOINT_PAGES = (
    (r"endpoints/?", EndpointsPage),
    (rf"endpoints/({NAME})", EndpointPage),
)
