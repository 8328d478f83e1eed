"""Visits to Home: what a user has not seen yet is what came after the last one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from portal.errors import StoreUnavailable
from portal.store import Store
from portal.store.site.visits import Visits

_GAP = 1800.0  # seconds without a look after which the next one begins another visit
_STEP = 300.0  # seconds of a visit between two writes
_FIRST = 86_400.0  # seconds that a first visit looks back
_LONGEST = 30 * 86_400.0  # … and that any does


async def last_visit(store: Store, user: str, clock: Callable[[], float] = time.time) -> float:
    """Return the end of the user's visit before this one (Unix seconds), and note that they look
    now. Raises StoreUnavailable."""
    now = clock()
    known = await store.visits.of_user(user)
    if known is None:
        visits = Visits(now - _FIRST, now)
    elif now - known.seen_at > _GAP:
        visits = Visits(known.seen_at, now)
    else:
        visits = known._replace(seen_at=now)
    if known is None or abs(now - known.seen_at) > _STEP:
        with contextlib.suppress(StoreUnavailable):  # a full disk: it can be read
            await store.visits.set(user, visits)
    return max(visits.before_at, now - _LONGEST)
