"""Pages of sessions: the user's sessions, a new named one, and a single one with its log."""

from __future__ import annotations

import contextlib
from typing import Any
from urllib.parse import quote, urlencode

from jupyterhub.slugs import is_valid_display_name, normalise_unicode, safe_slug

from portal.errors import InvalidRequest, NotFound, StoreUnavailable
from portal.models import scope

from .pages import Page

_SESSION_ID = r"[A-Za-z0-9_-]{1,64}"


class SessionsPage(Page):
    """Sessions of a person: what features show first, then what runs and waits, then what ended."""

    template = "sessions.html"

    async def variables(self, *segments: str) -> dict[str, Any]:
        shown: dict[str, Any] = {"parts": []}
        for made in self.parts.of_features.values():
            if of_page := getattr(made, "on_sessions_page", None):
                template, variables = await of_page(self.person.name)
                shown = {**shown, **variables, "parts": [*shown["parts"], template]}
        return shown


class NewSessionPage(Page):
    """Redirect from the name that a person typed to the launch page of that server."""

    async def get(self, *segments: str) -> None:
        title = normalise_unicode(self.get_query_argument("name", "")).strip()
        if not is_valid_display_name(title):
            raise InvalidRequest(
                "This is not a valid session name. Use 1 to 255 letters, digits, symbols and "
                "single spaces.",
                "name",
            )
        user = quote(self.person.name, safe="@~")  # as jupyterhub.user.User.escaped_name
        query = urlencode({"display_name": title})
        hub = self.settings["pages"].hub
        # As JupyterHub's own home page names servers.
        self.redirect(f"{hub}spawn/{user}/{safe_slug(title, avoid_collisions=False)}?{query}")


class SessionPage(Page):
    """A session, with the end of its log."""

    template = "session.html"

    async def variables(self, *segments: str) -> dict[str, Any]:
        """Answer 404 if the session does not exist or is not for this person.

        While the database is down, the page says so itself.
        """
        with contextlib.suppress(StoreUnavailable):
            record = await self.parts.store.sessions.get(segments[0])
            if record is None or (
                record.user != self.person.name and not self.person.may(scope.SESSIONS_READ)
            ):
                await self.refused(f"session {segments[0]}", record.user if record else "")
                raise NotFound("You have no such session.")
        return {"session_id": segments[0]}


# No session has "new" as its id.
SESSION_PAGES = (
    (r"sessions/?", SessionsPage),
    (r"sessions/new", NewSessionPage),
    (rf"sessions/({_SESSION_ID})", SessionPage),
)
