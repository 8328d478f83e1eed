"""Objects of the web service for runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from portal.catalog.versions.pins import pin_of
from portal.models.destination import Destination
from portal.models.home import HomePart, Place, Since
from portal.models.person import Person
from portal.models.session.run import Run
from portal.work.run.destinations import run_destinations
from portal.work.run.follower import RunFollower
from portal.work.run.home import HomeRuns
from portal.work.run.launches.again import RunsAgain
from portal.work.run.launches.repetitions import RunRepetitions
from portal.work.run.launches.scheduler import RunScheduler
from portal.work.run.launches.starts import RunStarts
from portal.work.run.live import LivePoints
from portal.work.run.living import LivingRuns
from portal.work.run.notices import RunNotices
from portal.work.run.reports import RunReports
from portal.work.run.results.searches import RunSearches
from portal.work.run.seen import viewer_of
from portal.work.run.settings import Runs

if TYPE_CHECKING:
    from portal.assembly import Services


class RunParts:
    """Limits, starts, reports and notices of runs, and their loops."""

    def __init__(self, services: Services) -> None:
        store, hub, log = services.store, services.hub, services.log
        cluster, control, dashboard = services.cluster, services.control, services.dashboard
        self._catalog, self._store = services.catalog, store
        self._memberships = services.memberships
        self._prefix = services.prefix
        self.limits = services.settings.get(Runs)
        self.live = LivePoints()
        self.reports, self.searches = RunReports(store, log), RunSearches(store)
        self.starts = RunStarts(self.reports, hub, store)
        self.again = RunsAgain(store, self.reports, hub)
        self.repetitions = RunRepetitions(store, self.starts)
        self.living = LivingRuns(store, cluster, hub, control, log)
        self._home = HomeRuns(services)
        self.notices = RunNotices(services.notices, store, log)
        follower = RunFollower(
            store, cluster, self.reports, lambda: dashboard.view, log, self.living
        )
        scheduler = RunScheduler(
            store, self.starts, hub, self.limits, self._digest, services.note, log
        )
        self.tasks: dict[str, Callable[[], Awaitable[None]]] = {
            "run scheduler": scheduler.run,
            "mail about runs": self.notices.run,
            "run follower": follower.run,
        }

    async def destinations_for(self, person: Person, text: str) -> Sequence[Destination]:
        """Return what has to do with runs and that a person can go to by name."""
        offered = self.limits.per_user > 0
        viewer = await viewer_of(self._memberships, person)
        return await run_destinations(self._store, viewer, text, self._prefix, offered=offered)

    def home_parts(self, person: Person, since: Since) -> Iterator[HomePart]:
        """Yield Home's part of runs."""
        load = partial(self._home.load, person, since)
        yield HomePart("runs", "Runs", Place.NOW, "home_runs.html", load)

    async def _digest(self, run: Run) -> str:
        """Return the digest of the image that a run would have now; "" for none."""
        pin = await pin_of(self._catalog, self._store, run.environment, space=run.space)
        return pin.digest
