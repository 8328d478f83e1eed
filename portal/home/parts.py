"""Objects of the web service for Home, with its parts of sessions and of the site."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from portal.models.home import HomePart, Place, Since
from portal.models.person import Person
from portal.models.scope import ENVIRONMENTS_MANAGE, JOBS_READ, NODES_MANAGE

from .gpus import FreeGpus
from .launches import HomeLaunches
from .sessions import HomeSessions
from .site import SiteAtHome

if TYPE_CHECKING:
    from portal.assembly import Services


class HomeParts:
    """Parts that Home has by itself."""

    def __init__(self, services: Services) -> None:
        self._sessions = HomeSessions(services)
        self._gpus, self._launches = FreeGpus(services), HomeLaunches(services)
        self._site = SiteAtHome(services)

    def home_parts(self, person: Person, since: Since) -> Iterator[HomePart]:
        """Yield the parts for this person."""
        sessions, site = self._sessions, self._site
        if person.may(ENVIRONMENTS_MANAGE) or person.may(NODES_MANAGE):
            tasks = partial(site.tasks, person)
            yield HomePart("tasks", "Needs a hand", Place.TODAY, "home_tasks.html", tasks)
        living = partial(sessions.living, person)
        yield HomePart("now", "Running and waiting", Place.NOW, "home_now.html", living)
        ended = partial(sessions.ended, person, since)
        yield HomePart("ended", "Ended since your last visit", Place.PAST, "home_ended.html", ended)
        title, load = "Launch with one click", partial(self._launches.load, person)
        yield HomePart("launches", title, Place.NEXT, "home_launches.html", load)
        gpus = partial(self._gpus.load, person)
        yield HomePart("gpus", "Free GPUs", Place.SITE, "home_gpus.html", gpus)
        if person.may(JOBS_READ):
            yield HomePart("queue", "Queue", Place.SITE, "home_queue.html", site.queue)
        if person.may(NODES_MANAGE):
            yield HomePart("health", "Health", Place.SITE, "home_health.html", site.health)
