"""Home's parts for admins: what needs a hand, the health of the site's parts, and the queue."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from portal.dashboard import ClusterView
from portal.errors import SlurmUnavailable
from portal.health.watch import HealthWatch
from portal.models.catalog.catalog import RequestState
from portal.models.catalog.image_job import WorkState
from portal.models.person import Person
from portal.models.scope import ENVIRONMENTS_MANAGE, NODES_MANAGE
from portal.models.words import count

if TYPE_CHECKING:
    from portal.assembly import Services

_BUILDS = 20  # the newest ones, of which those that failed lately are named
_LATELY = 7 * 86_400.0  # seconds
_NAMED, _REASONS = 5, 4  # nodes and reasons at most


class Task(NamedTuple):
    """Matter that needs a hand: its ``state`` (templates/status.html), words, and page."""

    state: str
    title: str
    words: str
    url: str


class SiteAtHome:
    """Parts about the site, for those whose scopes let them act."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._reasons: tuple[str, Sequence[tuple[str, int]]] = ("", ())  # of a version of the view

    async def tasks(self, person: Person) -> Mapping[str, Any]:
        """Return open requests, builds that failed, and nodes that take no jobs."""
        tasks: list[Task] = []
        if person.may(ENVIRONMENTS_MANAGE):
            tasks += await self._of_catalog()
        view = self._services.dashboard.view
        if view is not None and person.may(NODES_MANAGE):
            tasks += self._of_nodes(view)
        return {"tasks": tasks, "none": "Nothing needs a hand."}

    async def _of_catalog(self) -> list[Task]:
        store, prefix = self._services.store, self._services.prefix
        tasks = []
        _, requests = await store.environment_requests.all(limit=1, state=RequestState.OPEN)
        if requests:
            words = count(requests, "open request")
            tasks.append(Task("open", "Environments", words, f"{prefix}curate"))
        builds, _ = await store.builds.all(limit=_BUILDS)
        newest: dict[str, Any] = {}
        for build in builds:
            newest.setdefault(build.source, build)  # a later one of the same has replaced it
        since = time.time() - _LATELY
        for build in newest.values():
            if build.state is WorkState.FAILED and (build.ended_at or 0.0) >= since:
                url = f"{prefix}curate/builds/{build.id}"
                tasks.append(Task("failed", f"Build of {build.source}", build.message, url))
        return tasks

    def _of_nodes(self, view: ClusterView) -> Iterator[Task]:
        prefix = self._services.prefix
        broken = [node for node in view.nodes.values() if node.down or node.drained]
        for node in broken[:_NAMED]:
            words = ": ".join(filter(None, (node.words, node.reason)))
            state = "down" if node.down else "drained"
            yield Task(state, node.name, words, f"{prefix}?text={node.name}")
        if len(broken) > _NAMED:
            yield Task("down", "Others", count(len(broken) - _NAMED, "more node"), prefix)

    async def health(self) -> Mapping[str, Any]:
        """Return the health of the parts that the service depends on, as it knows it already."""
        return {"parts": self._services.parts_for(HealthWatch).parts()}

    async def queue(self) -> Mapping[str, Any]:
        """Return the numbers of jobs, and why they wait. Raises SlurmUnavailable."""
        view = self._services.dashboard.view
        if view is None:
            error = self._services.dashboard.error
            raise SlurmUnavailable(error or "Slurm has not answered yet.")
        if self._reasons[0] != view.id:
            self._reasons = view.id, await asyncio.to_thread(_reasons, view)
        return {"summary": view.summary, "reasons": self._reasons[1], "old": view.error}


def _reasons(view: ClusterView) -> list[tuple[str, int]]:
    jobs = view.snapshot.jobs.items()
    waiting = (view.jobs.bare[id_] for id_, job in jobs if job.state.pending and id_ in view.jobs)
    return Counter(job.words for job in waiting).most_common(_REASONS)
