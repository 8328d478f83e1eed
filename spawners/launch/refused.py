"""Limit per person on refused launches in spaces: each queries the database, Slurm and the file
system first."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jupyterhub import orm

from portal.errors import TooManyRequests
from portal.spaces.registry import space_nouns
from portal.web.audit_rate_limit import AuditRateLimit

from ..lifecycle.stop_reason import SERVICE


class RefusedLaunches:
    """Count of refused launches by who asks. The portal's service is not counted: a class must
    not wait because one of its students was refused too often."""

    def __init__(self, most: int = 20, per_second: float = 0.2) -> None:
        self._allowance = AuditRateLimit(most, per_second)

    @contextmanager
    def bounded(self, spawner: Any, *, runs: bool = False) -> Iterator[None]:
        """Count the launch that is checked inside, unless it is allowed. Raises TooManyRequests if
        the person has been refused too often; a launch counts as refused while it is checked.
        ``runs``: the session runs already, and its owner wants other resources for it."""
        asker = None if runs else getattr(spawner.handler, "current_user", None)
        if isinstance(asker, orm.Service) and asker.name == SERVICE:
            yield
            return
        kind, name = getattr(asker, "kind", "user"), getattr(asker, "name", spawner.user.name)
        who = f"{kind} {name}"
        if self._allowance.take(who, time.monotonic()) is None:
            seconds = max(1, self._allowance.wait(who))
            error = TooManyRequests(
                f"Too many of your launches in {space_nouns('s')} were refused. Read the reason, "
                f"then try again in {seconds} s."
            )
            error.details = {"retry_after": seconds}
            raise error
        yield
        self._allowance.give_back(who)
