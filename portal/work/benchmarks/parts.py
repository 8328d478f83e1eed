"""Objects of the web service for benchmarks."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from portal.models.home import HomePart, Place, Since
from portal.models.person import Person
from portal.models.scope import ENVIRONMENTS_MANAGE
from portal.models.words import count
from portal.notices.post import MailQueue
from portal.store import Store
from portal.work.run.parts import RunParts

from .collector import BenchmarkCollector
from .results import FALL
from .tables import BenchmarkRun, BenchmarkRunTable

if TYPE_CHECKING:
    from portal.assembly import Services


_LATELY = 14 * 86_400.0  # seconds for which Home names a fall


class BenchmarkParts:
    """The loop that collects results, and Home's part of those that fell."""

    def __init__(self, services: Services) -> None:
        self._store: Store = services.store
        self._page = f"{services.prefix}benchmarks"
        self.collector = BenchmarkCollector(
            services.store,
            services.cluster,
            services.hub,
            # The parts of other features are made at the same time.
            lambda: services.parts_for(RunParts).repetitions,
            MailQueue(services.notices, services.log),
            services.log,
            simulated=lambda: services.telemetry.simulated,
        )
        self.tasks: dict[str, Callable[[], Awaitable[None]]] = {
            "collection of benchmarks": self.collector.run
        }

    def home_parts(self, person: Person, since: Since) -> Iterator[HomePart]:
        """Yield Home's part for those who curate; the mail goes to the run's user alone."""
        if person.may(ENVIRONMENTS_MANAGE):
            title = "Benchmarks that fell"
            yield HomePart("benchmarks", title, Place.TODAY, "home_tasks.html", self._fallen)

    async def _fallen(self) -> Mapping[str, Any] | None:
        runs = await self._store.table(BenchmarkRunTable).fallen(time.time() - _LATELY)
        return {"tasks": [self._task(run) for run in runs]} if runs else None

    def _task(self, run: BenchmarkRun) -> Mapping[str, str]:
        version = f", version {run.version}" if run.version else ""
        words = f"{count(len(run.falls), 'result')} of '{run.name}' fell by {FALL:.0%} or more. "
        return {
            "state": "worse",
            "title": f"{run.environment}{version}",
            "words": words + run.falls[0],
            "url": f"{self._page}?{urlencode({'environment': run.environment})}",
        }
