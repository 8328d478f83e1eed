"""Routes of the portal in the Hub's API."""

from __future__ import annotations

from typing import Any

from jupyterhub import apihandlers

from .ended import EndedHandler
from .entries import EntryHandler
from .estimates import EstimateHandler
from .guests import GuestHandler, GuestsHandler
from .moves import MoveHandler, MovesHandler
from .people import PeopleHandler
from .port import PortHandler
from .rooms import RoomHandler, RoomsHandler
from .run_form import RunFormHandler
from .servers import ServersHandler
from .users import UserHandler, UsersHandler

ROUTES: tuple[tuple[str, type], ...] = (
    # a session's own
    (r"/api/portal/port", PortHandler),
    # its page's
    (r"/api/portal/ended/([^/]+)/([^/]*)/([A-Za-z0-9_-]{1,64})", EndedHandler),
    # the launch page's
    (r"/api/portal/estimates/([^/]+)", EstimateHandler),
    # the portal's service's
    (r"/api/portal/entries/([^/]+)/([^/]+)/([^/]*)", EntryHandler),
    (r"/api/portal/guests", GuestsHandler),
    (r"/api/portal/guests/([^/]+)/([^/]*)/([^/]+)", GuestHandler),
    (r"/api/portal/moves", MovesHandler),
    (r"/api/portal/moves/([^/]+)/([^/]*)", MoveHandler),
    (r"/api/portal/people", PeopleHandler),
    (r"/api/portal/rooms", RoomsHandler),
    (r"/api/portal/rooms/([^/]+)/([^/]+)", RoomHandler),
    (r"/api/portal/run-form/([a-z]+)/([^/]+)/([^/]*)", RunFormHandler),
    (r"/api/portal/servers", ServersHandler),
    (r"/api/portal/users", UsersHandler),
    (r"/api/portal/users/([^/]+)", UserHandler),
)


def install_routes() -> None:
    """Add the routes to JupyterHub's, before the Hub builds its handlers; a second call does
    nothing."""
    rows: list[Any] = apihandlers.default_handlers
    rows += [route for route in ROUTES if route not in rows]
