"""Environments that each person likes and used last, for the order of their launch page.

They are in the database, which the launch page does not wait for: what is known is shown, else the
catalog's own order.
"""

from __future__ import annotations

from portal.cache import SharedAnswers
from portal.catalog.offers.preferences import NO_PREFERENCES, Preferences, preferences_of
from portal.store import Store

_AGE = 20.0  # seconds for which an answer is fresh
_PATIENCE = 0.3  # seconds that a page waits for the database


class Favourites:
    """Cache of everyone's preferences, as far as they were asked for; it never raises."""

    def __init__(self, store: Store) -> None:
        self._preferences = SharedAnswers[str, Preferences](
            lambda user: preferences_of(store, user),
            ttl=lambda _: _AGE,
            patience=_PATIENCE,
            first=NO_PREFERENCES,
        )

    async def preferences_of(self, user: str) -> Preferences:
        """Return the preferences of this person, as far as they are known now."""
        return await self._preferences.for_key(user).get()
