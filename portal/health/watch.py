"""Watch of the parts that the portal depends on: what others know already, and a look at the rest
now and then, so that a question for it costs nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from portal import disk
from portal.errors import PortalError, StoreUnavailable, Unavailable
from portal.models.audit import AuditAction, Outcome
from portal.models.words import count, duration
from portal.periodic import Periodic

if TYPE_CHECKING:
    from portal.assembly import Services

_EVERY = 15.0  # seconds between two looks
_DIRECTORY = 60.0  # seconds between two questions to the directory
_LATE = 10.0  # seconds after which a part that is looked at counts as away
_SLOW = 1.0  # seconds that the database may take for a query that costs nothing
_OLD = 120.0  # seconds; Slurm is asked every few seconds
_BACKUP_OLD = 50 * 3600.0  # seconds: two nights
_LITTLE = 1024**3  # bytes left on a disk that is nearly full
_HUB = "Hub"
_NOBODY = "portal-health"  # who is looked for in the directory


class Health(StrEnum):
    """State of the site. ``failed``: nothing works; ``degraded``: a part of it."""

    OK = "ok"
    DEGRADED = "degraded"
    FAILED = "failed"


class PartHealth(NamedTuple):
    """Part of the site, and how it is: a ``state`` (templates/status.html), and a sentence if it is
    not well."""

    title: str
    state: str
    words: str


class HealthWatch:
    """Health of all parts; ``tasks`` has the loop that looks at those that nobody else watches."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._directory_again = float("-inf")
        self._seen: dict[str, str] = {}  # sentences of what was looked at; "": it is well
        self.tasks: dict[str, Callable[[], Awaitable[None]]] = {"health watch": self.run}

    async def run(self) -> None:
        """Look until cancelled."""
        await Periodic("The health watch", self.look_around, _EVERY, self._services.log).run()

    async def look_around(self) -> None:
        """Look at all parts at once; one that does not answer in time is away."""
        looks = {
            _HUB: self._hub(),
            "Database": self._database(),
            "Disk of the database": asyncio.to_thread(self._disk),
            "Directory": self._directory(),
            "Backup": self._backup(),
            **self._of_features(),
        }
        seen = await asyncio.gather(*(_in_time(look) for look in looks.values()))
        self._seen = {
            title: words for title, words in zip(looks, seen, strict=True) if words is not None
        }

    def parts(self) -> list[PartHealth]:
        """Return all parts, as far as known. Asks nobody."""
        services = self._services
        view, telemetry, catalog = (
            services.dashboard.view,
            services.telemetry,
            services.catalog,
        )
        if view is None:
            slurm = services.dashboard.error or "It has not answered yet."
        else:
            slurm = view.error
            if not slurm and view.snapshot.age > _OLD:
                slurm = f"Its last answer is {duration(view.snapshot.age)} old."
        files = f"{count(len(catalog.errors), 'file')} cannot be read." if catalog.errors else ""
        problems = {
            "Slurm": slurm,
            **self._seen,
            "Database": services.store.error or self._seen.get("Database", ""),
            "GPU readings": telemetry.error,
            "Environment files": files,
        }
        if telemetry.source == "none":
            del problems["GPU readings"]
        return [
            PartHealth(title, "failed" if words else "ready", words)
            for title, words in problems.items()
        ]

    def health(self) -> Health:
        """Return the state of the whole."""
        bad = {part.title for part in self.parts() if part.words}
        # Without the Hub nobody can log in; without Slurm and the database there is nothing to see.
        nothing = "Slurm" in bad and self._services.store.error
        if _HUB in bad or nothing:
            return Health.FAILED
        return Health.DEGRADED if bad else Health.OK

    async def _hub(self) -> str:
        return "" if await self._services.hub.answers() else "The Hub does not answer."

    async def _database(self) -> str:
        began = time.monotonic()
        await self._services.store.check()
        seconds = time.monotonic() - began
        return f"It took {seconds:.1f} s for a query that costs nothing." if seconds > _SLOW else ""

    def _disk(self) -> str | None:
        path = self._services.store.database.address.path
        if path is None or (left := disk.free(path)) is None:
            return None
        if left < disk.LEAST:
            return disk.FULL
        return f"{left // 1024**2} MiB are left." if left < _LITTLE else ""

    async def _directory(self) -> str | None:
        directory = self._services.directory
        if not (directory.on and directory.complete):
            return None
        if time.monotonic() < self._directory_again:
            return self._seen.get("Directory")
        self._directory_again = time.monotonic() + _DIRECTORY
        try:
            await directory.known([_NOBODY])
        except Unavailable as error:
            return error.message
        return ""

    async def _backup(self) -> str | None:
        try:
            made, _ = await self._services.store.audit.find(
                action=AuditAction.BACK_UP, outcome=Outcome.DONE, limit=1
            )
        except StoreUnavailable:
            return None  # which is said of the database
        if not made:  # the site makes none, or by other means
            return None
        age = time.time() - made[0].at
        return f"The newest backup is {duration(age)} old." if age > _BACKUP_OLD else ""

    def _of_features(self) -> Mapping[str, Awaitable[str | None]]:
        """Return what features look at: ``look_at`` of their parts, by title."""
        looks: dict[str, Awaitable[str | None]] = {}
        for made in self._services.of_features.values():
            if more := getattr(made, "look_at", None):
                looks |= more()
        return looks


async def _in_time(look: Awaitable[Any]) -> str | None:
    """Return what ``look`` returns: a sentence, "" if all is well, None if it is not known."""
    try:
        seen: str | None = await asyncio.wait_for(look, _LATE)
    except TimeoutError:
        return f"It did not answer within {_LATE:g} s."
    except PortalError as error:
        return error.message
    return seen
