"""``api/v1/environments/NAME/launch``: a launch from Home, with one click."""

from __future__ import annotations

from portal.errors import Conflict, NotAllowed
from portal.handlers.base.action import Action, Confirmation
from portal.handlers.base.endpoint import Operation
from portal.handlers.base.entry import is_click
from portal.handlers.catalog.items import as_seen_by_catalog
from portal.models.audit import AuditAction

from .launches import options_for


class LaunchEnvironment(Action):
    """Launch of the user's default session."""

    path = "environments/{environment}/launch"
    parameters = {"environment": "[a-z0-9][a-z0-9._-]{0,62}"}

    @Operation("Launch your default session in an environment.", status=202, errors=(409,))
    async def on_post(self, environment: str) -> Confirmation:
        """Use the options of your last launch of this environment.

        Only the portal's pages can do this: programs launch with the Hub's API, whose scopes a
        token needs for it.
        """
        user, parts = self.person.name, self.parts
        await parts.catalog.load()
        known = parts.catalog.get(environment, as_seen_by_catalog(self.person))
        async with self.audited(AuditAction.START_SESSION, f"environment {known.name}", user):
            if not is_click(self):
                raise NotAllowed("Only the portal's own pages can launch with one click.")
            if await parts.hub.server_state(user, ""):
                raise Conflict("Your session is already running or starting.")
            options = await options_for(parts.store, user, known.name)
            await parts.hub.begin_server(user, "", options)
        return self.done("Your session is starting.")


ENDPOINTS = (LaunchEnvironment,)
