"""Home's parts of sessions: what runs and waits, or a newcomer's first steps; what has ended."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from portal.errors import StoreUnavailable
from portal.handlers.catalog.items import as_seen_by_catalog
from portal.launch.kinds import KINDS, kind_of
from portal.models.catalog.environment import Environment
from portal.models.home import Since
from portal.models.person import Person
from portal.models.session.session import SessionRecord
from portal.models.words import duration
from portal.sessions.item import SessionContext, SessionItem, session_item

from .words import resources_words

if TYPE_CHECKING:
    from portal.assembly import Services
    from portal.dashboard import ClusterView

_LIVING, _ENDED = 20, 5  # shown at most
# As in static/js/sessionview.js.
_FAILED = frozenset({"out_of_memory", "node_failure", "preempted", "start_failed", "failed"})


class HomeSession(NamedTuple):
    """Session, with its resources and time left in words, and the use of its GPUs in percent: over
    time, and now (None: not known)."""

    item: SessionItem
    resources: str
    left: str
    use: Sequence[int] = ()
    use_now: float | None = None

    @property
    def title(self) -> str:
        return self.item.environment_title or self.item.environment or "Session"

    @property
    def words(self) -> str:
        """State, or why it waits, and its position in the queue."""
        words = re.sub("^it is ", "", self.item.words, flags=re.IGNORECASE)
        position = self.item.position
        queue = f", position {position} in the queue" if position else ""
        return f"{words[:1].upper()}{words[1:]}{queue}"

    @property
    def failed(self) -> bool:
        """Return True if the session has not ended as it should."""
        return self.item.ending is not None and self.item.ending.code in _FAILED


class HomeSessions:
    """Sessions of a user. Kernels and runs are jobs of their own, which have no page to open."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def living(self, person: Person) -> Mapping[str, Any]:
        """Return the sessions that run or wait; of a user who never had one, the first steps."""
        services = self._services
        try:
            records, _ = await services.store.sessions.find(
                user=person.name, ended=False, limit=10 * _LIVING
            )
        except StoreUnavailable:
            view = services.dashboard.view
            if view is None:
                raise
            records = [known for known in view.sessions.values() if known.user == person.name]
        shown = [record for record in records if kind_of(record).serves]
        sessions = await self._sessions(person, shown[:_LIVING])
        new = not records and not await services.store.sessions.launches(
            person.name, _with_page(), limit=1
        )
        return {
            "sessions": sessions,
            "more": len(shown) - len(sessions),
            "first": self._first(person) if new else None,
            "new": new,
            "title": "Start in three steps" if new else "",
            "simulated": services.telemetry.simulated,
        }

    async def ended(self, person: Person, since: Since) -> Mapping[str, Any] | None:
        """Return the sessions that have ended since the last visit; None without any."""
        last = await since()
        records = await self._services.store.sessions.launches(
            person.name, _with_page(), ended_since=last, limit=_ENDED + 1
        )
        if not records:
            return None
        sessions = await self._sessions(person, records[:_ENDED])
        return {"sessions": sessions, "since": last, "more": len(records) > _ENDED}

    async def _sessions(
        self, person: Person, records: Sequence[SessionRecord]
    ) -> list[HomeSession]:
        services, now = self._services, time.time()
        await services.catalog.load()
        view, viewer = services.dashboard.view, as_seen_by_catalog(person)
        offered = {known.name: known for known in services.catalog.visible_to(viewer)}
        living = [r for r in view.sessions.values() if r.user == person.name] if view else []
        shown = []
        for record in records:
            item = session_item(
                record,
                SessionContext(
                    viewer=person.name,
                    base=services.base,
                    now=now,
                    environment=offered.get(record.environment),
                    job=view.jobs.get(record.job_id) if view else None,
                    snapshot=view.snapshot if view else None,
                    living=living,
                ),
            )
            left = "" if item.time_left is None else f"{duration(item.time_left)} left"
            # In memory, as it is stored: at most 120 numbers of a job.
            known = services.dashboard.job_uses.use_of(record.job_id)
            use = [value for value in known.gpu if value is not None] if known else []
            now_ = _use_now(view, record.job_id) if view and use else None
            resources = resources_words(record.options, services.gpu_titles)
            shown.append(HomeSession(item, resources, left, use, now_))
        return shown

    def _first(self, person: Person) -> Environment | None:
        """Return the environment for a first session: the first one that has a starter."""
        offered = self._services.catalog.visible_to(as_seen_by_catalog(person))
        with_starter = (known for known in offered if known.starters)
        return next(with_starter, offered[0] if offered else None)


def _use_now(view: ClusterView, job_id: str) -> float | None:
    job = view.jobs.bare.get(job_id)
    held = job.gpu_indexes.items() if job else ()
    gpus = (view.gpus.get(f"{node}/{index}") for node, indexes in held for index in indexes)
    use = [gpu.utilization for gpu in gpus if gpu is not None and gpu.utilization is not None]
    return statistics.fmean(use) if use else None


def _with_page() -> list[str]:
    """Return the names of the kinds whose sessions have a page."""
    return [kind.name for kind in KINDS if kind.serves]
