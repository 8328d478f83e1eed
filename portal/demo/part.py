"""Part of a feature in the demo: what it makes at the start, and its share of the made up past."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from threading import Event
from typing import NamedTuple

from sqlalchemy import Delete

from portal.store import Store

from .daemons.process import Daemon
from .home import Home
from .people import People
from .showcase.past import Past


class DemoPart(NamedTuple):
    """Part of a feature (`Feature.demo`)."""

    # Called with the Hub's daemon, the folder ``deploy`` and a function for sentences. Raises
    # PortalError.
    make: Callable[[Daemon, Path, Home, People, Callable[[str], None]], None]
    # The past of a demo that begins at a time (Unix seconds). Raises PortalError.
    past: Callable[[Store, float], Awaitable[Past]]
    # Statements that delete what only this past has.
    removal: Callable[[], Sequence[Delete]]
    # What goes on at a first visit: called in a thread once the demo is ready, with the Hub's
    # address, the folder ``deploy`` and an event that is set when the demo stops. Raises
    # PortalError.
    begin: Callable[[str, Path, People, Event], None] = lambda *_: None
