"""GPU-hours that spaces have used and may use."""

from __future__ import annotations

from portal.cache import SharedAnswers
from portal.models.space import Space
from portal.models.words import count
from portal.store import Store

_AGE = 30.0  # seconds for which a space's used GPU-hours are known


class Budgets:
    """Short-lived cache of the GPU-hours that spaces have used: three hundred students start in
    the same minute. ``used`` never raises; while the database is away, the last answer stays."""

    def __init__(self, store: Store) -> None:
        self._used = SharedAnswers[str, float](
            store.usage.of_space, ttl=_AGE, patience=1.0, first=0.0
        )

    async def used(self, space: str) -> float:
        """Return the GPU-hours of all sessions of the space until now."""
        return await self._used.for_key(space).get()

    async def spent(self, space: Space) -> str:
        """Return why the space has no GPUs any more; "" while it has."""
        if space.budget is None or await self.used(space.name) < space.budget:
            return ""
        hours = count(round(space.budget), "GPU-hour")
        return (
            f"The {space.called} has used its {hours}, so its sessions have no GPUs. Ask "
            f"its {space.leader}."
        )
