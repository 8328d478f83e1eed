"""Starts of repetitions, each under a name that the user's other runs do not have."""

from __future__ import annotations

from portal.models.session.run import Run
from portal.store import Store
from portal.work.run.tables.runs import RunTable

from .repeats import free_name, repeat
from .starts import RunStarts


class RunRepetitions:
    """Starts of runs that repeat others."""

    def __init__(self, store: Store, starts: RunStarts) -> None:
        self._store, self._starts = store, starts
        self._names: dict[str, set[str]] = {}  # of those that are starting, by user

    async def name(self, user: str, original: Run) -> str:
        """Return the name that a repetition would get now. Raises StoreUnavailable."""
        stored = await self._store.table(RunTable).names(user)
        return free_name(original, stored | self._names.get(user, set()))

    async def start(
        self, user: str, original: Run, *, version: int, digest: str, id_: str = ""
    ) -> Run:
        """Start a new run of ``user`` that repeats ``original``; return it once Slurm has its job.
        ``version`` of its environment, and the ``digest`` of its image; ``id_`` of the new run, ""
        for a random one. Raises what ``RunStarts.begin`` does."""
        name = await self.name(user, original)
        # Nothing is awaited before it is noted, or two that start at once would share a folder.
        names = self._names.setdefault(user, set())
        names.add(name)
        try:
            pinned = original.model_copy(update={"version": version, "digest": digest})
            run = repeat(user, pinned, name, id_)
            await self._starts.begin(run)
        finally:
            names.discard(name)
            if not names:
                self._names.pop(user, None)
        return run
