"""Entries: a user who has just pressed *Open* on one of the portal's pages, and for which session.

JupyterHub asks before a session of another user learns who comes. Whoever chose that session on the
portal's page a moment ago has answered already; a bare link has not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

LASTS = 120.0  # seconds from the click to the Hub's question, on a slow machine
MOST = 8  # unused entries of a user; the oldest go first


@dataclass
class Entries:
    """Entries by visitor; each is for one server of one owner, and for one use.

    An entry says only that the visitor need not be asked: what they may enter, and what the session
    learns, JupyterHub decides as ever. They are lost with the Hub, which then asks.
    """

    clock: Callable[[], float] = time.monotonic
    _until: dict[str, dict[tuple[str, str], float]] = field(default_factory=dict)

    def admit(self, visitor: str, owner: str, server: str) -> None:
        """Make an entry for ``visitor`` to this server of ``owner``."""
        now, session = self.clock(), (owner, server)
        held = self._until.get(visitor, {})
        live = {other: end for other, end in held.items() if end > now and other != session}
        self._until[visitor] = dict([*live.items(), (session, now + LASTS)][-MOST:])

    def use(self, visitor: str, owner: str, server: str) -> bool:
        """Return True if ``visitor`` has an entry to this server of ``owner``, and remove it."""
        return self._until.get(visitor, {}).pop((owner, server), 0.0) > self.clock()
