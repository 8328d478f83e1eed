"""Entrance to another user's session from one of the portal's pages.

The Hub asks before a session learns who comes, since opening a link gives nobody's identity away.
A user who presses *Open* on the portal's page has answered that: the service says so to the Hub,
for this user, this session and the next moment. Only a page of the portal can cause it: its request
has the browser's login with the XSRF token of that login, and comes from the portal's own origin.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from portal.errors import NotAllowed
from portal.models import Frozen

from .endpoint import Endpoint


class ServerAddress(Frozen):
    """Address of a session's server."""

    url: Annotated[str, Field(examples=["/user/ada/"])]


def is_click(handler: Endpoint) -> bool:
    """Return True if a page of the portal sends this request for the user in front of it.

    A token does not count: programs in a session can read the session's own, and may have others.
    Neither do pages elsewhere, should they ever learn the XSRF token; browsers name the origin in a
    header that no script can set (Fetch Metadata).
    """
    if handler.hub_auth.get_token(handler, in_cookie=False):
        return False
    return handler.request.headers.get("Sec-Fetch-Site", "same-origin") == "same-origin"


async def enter(handler: Endpoint, user: str, server: str) -> ServerAddress:
    """Let the requester into this server once without a question of the Hub; return its address.

    Call it once they may enter. Raises NotAllowed if no page of the portal asks, NotFound,
    HubUnavailable.
    """
    if not is_click(handler):
        raise NotAllowed("Only the portal's own pages can open a session without a question.")
    return ServerAddress(url=await handler.parts.hub.admit(user, server, handler.person.name))
