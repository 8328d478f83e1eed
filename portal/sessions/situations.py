"""Status of a session for the session itself. A thousand sessions ask every ten seconds: nothing
here queries Slurm, the Hub or the database for a single session."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from portal.cache import SharedAnswer
from portal.errors import NotFound, StoreUnavailable
from portal.launch.extending import Extending, Running, offer
from portal.models.announcement import Announcement
from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import Association, ClusterSnapshot, Job
from portal.models.cluster.rights import Rights
from portal.models.session.resources import time_seconds
from portal.models.session.session import SessionRecord
from portal.models.session.usage import JobUsage, SessionReports
from portal.models.situation import ExtendOffer, Situation
from portal.models.space import StoredSpace
from portal.slurm import Cluster
from portal.slurm.control.control import ClusterControl
from portal.spaces.limits import narrowed
from portal.store import Store
from portal.telemetry import Telemetry

from .idle_gpus import IdleGpus
from .moves import Moves
from .situation import SessionData, situation_of
from .view import WholeView

_Measured = tuple[Mapping[str, JobUsage], Mapping[str, SessionReports]]

# Seconds for which an answer is shared.
_ANNOUNCED = 5.0
_MEASURED = 60.0
_CATALOG = 30.0
_LIMITS = 300.0
_PATIENCE = 1.0  # seconds that a session waits for a newer answer
_NO_RIGHT = (
    "The portal's Slurm account may not extend sessions. Ask a portal admin to grant the "
    "missing right."
)


@dataclass(frozen=True)
class SituationContext:
    """Dependencies. ``address``: the service's prefix with the Hub's host, if that is known;
    ``view`` returns the newest view; ``environment_of`` the environment of a name, as
    ``load_catalog`` has read it; ``space`` reads a space, ``known_space`` has the last reading;
    ``told`` returns what features tell a session, by fields of its situation."""

    address: str
    store: Store
    cluster: Cluster
    control: ClusterControl
    telemetry: Telemetry
    extending: Extending
    idle: IdleGpus
    moves: Moves
    view: Callable[[], WholeView | None]
    load_catalog: Callable[[], Awaitable[object]]
    environment_of: Callable[[str], Environment | None]
    space: Callable[[str], Awaitable[object]]
    known_space: Callable[[str], StoredSpace | None]
    told: Callable[[SessionRecord], Awaitable[Mapping[str, Any]]]


class Situations:
    """Status of all running sessions. One instance per service."""

    def __init__(self, context: SituationContext) -> None:
        self._context, store = context, context.store
        how: Any = {"patience": _PATIENCE}
        self.announcements = SharedAnswer[list[Announcement]](
            lambda: store.announcements.active(time.time()), ttl=_ANNOUNCED, first=[], **how
        )
        self._measured = SharedAnswer[_Measured](
            self._measure, ttl=_MEASURED, first=({}, {}), **how
        )
        self._catalog = SharedAnswer(context.load_catalog, ttl=_CATALOG, first=None, **how)
        self._rights = SharedAnswer(
            lambda: context.control.rights(), ttl=_MEASURED, first=Rights(known=False), **how
        )
        self._limits = SharedAnswer(self._expect_limits, ttl=_LIMITS, first=None, **how)

    async def status_of(self, record: SessionRecord, job: Job, view: WholeView) -> Situation:
        """Return the status of the session of ``record``, whose job is ``job``."""
        context, now = self._context, time.time()
        usage, reports = await self._measured.get()
        await self._catalog.get()
        await self._limits.get()
        keys = (f"{node}/{index}" for node, some in job.gpu_indexes.items() for index in some)
        known = SessionData(
            now=now,
            taken_at=view.taken_at,
            error=view.error,
            # Absolute for the session's pages, which can have another host.
            prefix=context.address,
            base=context.address.removesuffix("services/portal/"),
            environment=self.environment(record),
            gpus=[view.gpus[key] for key in keys if key in view.gpus],
            usage=usage.get(record.id),
            reports=reports.get(record.id),
            simulated=context.telemetry.simulated,
            announcements=await self.announcements.get(),
            warn_minutes=context.extending.warn_minutes,
            extend=await self.offer(record, job, view.snapshot),
            idle=context.idle.state_of(record.id),
            move=context.moves.move_of(record.id),
            told=await context.told(record),
        )
        return situation_of(record, job, known)

    async def offer(
        self, record: SessionRecord, job: Job, snapshot: ClusterSnapshot, *, anyway: bool = False
    ) -> ExtendOffer:
        """Return the offer to extend its time, from what is known without asking Slurm;
        ``anyway``: by an admin."""
        context = self._context
        await self.expect(record)
        rights = await self._rights.get()
        qos = context.cluster.known_qos
        if qos:
            snapshot = snapshot.model_copy(update={"qos": qos})
        limits = context.cluster.known_associations(record.account or record.user)
        running = self.running(record, job, snapshot, limits)
        extend = offer(running, context.extending, time.time(), anyway=anyway)
        if extend.allowed and rights.known and not rights.jobs:
            return ExtendOffer(latest_end=extend.latest_end, reason=_NO_RIGHT)
        return extend

    def running(
        self,
        record: SessionRecord,
        job: Job,
        snapshot: ClusterSnapshot,
        associations: tuple[Association, ...] | None,
    ) -> Running:
        """Return the session's job with the limits on its time."""
        return Running(
            job=job,
            environment=self.environment(record),
            snapshot=snapshot,
            associations=associations,
            asked=_asked(record),
        )

    async def expect(self, record: SessionRecord) -> None:
        """Load the space that ``environment`` needs; while the database is away, keep the last
        one."""
        if record.space:
            with contextlib.suppress(NotFound, StoreUnavailable):
                await self._context.space(record.space)

    def environment(self, record: SessionRecord) -> Environment | None:
        """Return the session's environment as it is in the catalog now, whoever may use it; for a
        space, the one that it pins or has, narrowed to the space's limits."""
        if not record.space:
            return self._context.environment_of(record.environment)
        stored = self._context.known_space(record.space)
        if stored is None:
            return None
        pins, of_catalog = stored.space.pins, self._context.environment_of
        environment = stored.pinned if pins else of_catalog(record.environment)
        return narrowed(environment, stored.space) if environment else None

    async def _measure(self) -> _Measured:
        view, store = self._context.view(), self._context.store
        ids = [record.id for record in view.sessions.values()] if view else []
        return await store.usage.of_sessions(ids), await store.reports.of_sessions(ids)

    async def _expect_limits(self) -> None:
        self._context.cluster.expect_launches()


def _asked(record: SessionRecord) -> int | None:
    text = record.options.get("time")
    try:
        return time_seconds(text) if isinstance(text, str) else None
    except ValueError:
        return None
