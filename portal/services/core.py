"""Assembly of the service's parts below its handlers."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from traitlets.config import Configurable

from portal.cache import SharedAnswer
from portal.catalog.builds.scheduler import BuildScheduler
from portal.catalog.offers.software import Software
from portal.catalog.offers.tile import Tiles
from portal.catalog.versions.curating import Curator
from portal.catalog.versions.pins import pin_of
from portal.catalog.versions.user_environments import UserEnvironments
from portal.courses.definition.readiness import CourseReadiness
from portal.courses.definition.rules import CourseRules
from portal.courses.definition.service import CourseService
from portal.courses.files.collecting import Collecting
from portal.courses.files.handouts import CourseHandouts
from portal.courses.live.helping import Helping
from portal.courses.live.rooms import Rooms
from portal.courses.roster.enrolment import Enrolment
from portal.courses.roster.membership_cache import MembershipCache
from portal.courses.roster.unenrol import Unenrolment
from portal.courses.settings import Courses
from portal.directory import Directory
from portal.directory.ldap import LdapDirectory
from portal.errors import PortalError
from portal.estimates import StartEstimates
from portal.launch.extending import Extending
from portal.launch.job_kernels import JobKernels
from portal.launch.runs import Runs
from portal.models.audit import AuditAction, AuditEntry, Outcome
from portal.models.cluster.cluster import ClusterSnapshot
from portal.models.session.resources import Resources
from portal.models.session.run import Run
from portal.notices import Notices
from portal.notices.run_notices import RunNotices
from portal.sessions.idle_gpus import IdleContext, IdleGpus
from portal.sessions.moves import Moves
from portal.sessions.runs.follower import RunFollower
from portal.sessions.runs.launches.again import RunsAgain
from portal.sessions.runs.launches.repetitions import RunRepetitions
from portal.sessions.runs.launches.scheduler import RunScheduler
from portal.sessions.runs.launches.starts import RunStarts
from portal.sessions.runs.live import LivePoints
from portal.sessions.runs.living import LivingRuns
from portal.sessions.runs.reports import RunReports
from portal.sessions.runs.searches import RunSearches
from portal.slurm.control.reservations import ReservationControl
from portal.web.audit_rate_limit import AuditRateLimit

if TYPE_CHECKING:
    from portal.catalog import EnvironmentCatalog
    from portal.dashboard import Dashboard
    from portal.hubapi import HubApi
    from portal.images.registry.registry import Registries
    from portal.slurm import Cluster
    from portal.slurm.control.control import ClusterControl
    from portal.store import Store
    from portal.telemetry import Telemetry


@dataclass
class CoreServices:
    """Services below the handlers. ``prefix`` is "/services/portal/" with both
    slashes."""

    prefix: str
    log: logging.Logger
    catalog: EnvironmentCatalog
    cluster: Cluster
    control: ClusterControl
    telemetry: Telemetry
    dashboard: Dashboard
    store: Store
    hub: HubApi
    extending: Extending = field(default_factory=Extending)
    job_kernels: JobKernels = field(default_factory=JobKernels)
    run_limits: Runs = field(default_factory=Runs)
    estimates: StartEstimates = field(default_factory=StartEstimates)
    # Resources of a session for which neither the person nor the environment sets any.
    default_resources: Resources = field(default_factory=Resources)
    notices: Notices = field(default_factory=Notices)
    allowance: AuditRateLimit = field(default_factory=AuditRateLimit)
    courses: Courses = field(default_factory=Courses)
    subdomains: bool = False  # each person's servers have a host of their own
    hub_host: str = ""  # the Hub's, as "https://gpu.example.org", if the Hub tells it
    course_directory: Directory = field(default_factory=LdapDirectory)
    parent: Configurable | None = None  # its configuration has the settings of the parts below
    idle: IdleGpus = field(init=False)
    build_scheduler: BuildScheduler = field(init=False)
    user_environments: UserEnvironments = field(init=False)
    curator: Curator = field(init=False)
    memberships: MembershipCache = field(init=False)
    desk: CourseService = field(init=False)
    readiness: CourseReadiness = field(init=False)
    helping: Helping = field(init=False)
    rooms: Rooms = field(init=False)
    handouts: CourseHandouts = field(init=False)
    collecting: Collecting = field(init=False)
    software: Software = field(init=False)
    moves: Moves = field(init=False)
    run_reports: RunReports = field(init=False)
    run_searches: RunSearches = field(init=False)
    run_starts: RunStarts = field(init=False)
    run_again: RunsAgain = field(init=False)
    run_repetitions: RunRepetitions = field(init=False)
    run_follower: RunFollower = field(init=False)
    living_runs: LivingRuns = field(init=False)
    live_points: LivePoints = field(init=False)
    run_notices: RunNotices = field(init=False)
    run_scheduler: RunScheduler = field(init=False)
    tiles: Tiles = field(init=False)

    def __post_init__(self) -> None:
        parent = self.parent
        self.build_scheduler = BuildScheduler(self.cluster, self.store, self.catalog, parent=parent)
        self.user_environments = UserEnvironments(
            self.catalog, self.store, self.build_scheduler, parent=parent
        )
        self.tiles = Tiles(self.catalog, self.store)
        self.curator = Curator(self.catalog, self.store, self.note, parent=parent)
        self.memberships = MembershipCache(self.store)
        self.course_service = self._course_service()
        self.readiness = CourseReadiness(
            self.store, self.cluster, self._snapshot, ReservationControl(self.cluster.runner)
        )
        self.helping = Helping(
            self.store, self.hub, self.courses, self.subdomains, self.note, self.log
        )
        self.rooms = Rooms(self.store, self.hub, self.subdomains, self.note, self.log)
        self.handouts = CourseHandouts(self.store, self.courses, self.log)
        self.collecting = Collecting(self.store, self.courses)
        self.software = Software(self.store)
        self.moves = Moves(self.hub, self.log)
        self.run_reports = RunReports(self.store, self.log)
        self.run_searches = RunSearches(self.store)
        self.live_points = LivePoints()
        self.run_starts = RunStarts(self.run_reports, self.hub, self.store)
        self.run_again = RunsAgain(self.store, self.run_reports, self.hub)
        self.run_repetitions = RunRepetitions(self.store, self.run_starts)
        self.living_runs = LivingRuns(self.store, self.cluster, self.hub, self.control, self.log)
        self.run_follower = RunFollower(
            self.store,
            self.cluster,
            self.run_reports,
            lambda: self.dashboard.view,
            self.log,
            self.living_runs,
        )
        self.run_scheduler = RunScheduler(
            self.store,
            self.run_starts,
            self.hub,
            self.run_limits,
            self._digest,
            self.note,
            self.log,
        )
        self.run_notices = RunNotices(self.notices, self.store, self.log)
        times = SharedAnswer[Mapping[str, float]](
            self._idle_times, ttl=30.0, patience=1.0, first={}
        )
        context = IdleContext(
            view=lambda: self.dashboard.view,
            interval=lambda: self.dashboard.refresh_interval,
            telemetry=self.telemetry,
            store=self.store,
            hub=self.hub,
            idle_times=times.get,
            note=self.note,
            moving=self.moves.moving,
        )
        self.idle = IdleGpus(context, parent=parent)

    def _snapshot(self) -> ClusterSnapshot | None:
        """Return the cluster as everyone sees it; None while nothing is known."""
        return self.dashboard.view.snapshot if self.dashboard.view else None

    def _course_service(self) -> CourseService:
        rules = CourseRules(
            self.courses,
            self.catalog,
            self.store,
            self._snapshot,
            lambda name: self.cluster.has_account(name),
        )
        left = Unenrolment(self.store, self.hub, self.log).left
        enrolment = Enrolment(
            self.store, self.memberships, self.course_directory, self.courses, self.log, left
        )
        return CourseService(self.store, self.memberships, rules, enrolment, self.courses)

    @property
    def registries(self) -> Registries:
        """Client of the image registries: the same object that builds use."""
        return self.build_scheduler.registries

    async def _digest(self, run: Run) -> str:
        """Return the digest of the image that a run would have now; "" for none."""
        pin = await pin_of(self.catalog, self.store, run.environment, course=run.course)
        return pin.digest

    async def _idle_times(self) -> Mapping[str, float]:
        """Return the environments' own idle times in seconds, by name."""
        await self.catalog.load()
        return {
            name: float(environment.idle_time)
            for name, environment in self.catalog.environments.items()
            if environment.idle_time is not None
        }

    async def audit(
        self,
        handler: Any,
        action: AuditAction,
        target: str,
        *,
        owner: str = "",
        outcome: Outcome = Outcome.DONE,
        detail: str = "",
    ) -> bool:
        """Add an entry to the audit log, for the person of ``handler``; return False if it could
        not be written there.

        The entry also goes to the service's log, so it is not lost while the database is away, and
        this does not raise. Entries that anybody can cause without end (refused or failed actions,
        and actions on oneself) are rate-limited (``AuditRateLimit``); the rest is only counted.
        """
        actor = handler.person.name
        if outcome is not Outcome.DONE or owner == actor:
            missed = self.allowance.take(actor, time.monotonic())
            if missed is None:
                return True
            if missed:
                missing = f"{missed} entries before this one were suppressed (rate limit)."
                detail = f"{missing} {detail}".strip()
        entry = AuditEntry(
            at=time.time(),
            actor=actor,
            action=action,
            target=target[:300],
            owner=owner,
            outcome=outcome,
            detail=detail[:1000],
            address=origin(handler.request),
        )
        return await self.note(entry)

    async def note(self, entry: AuditEntry) -> bool:
        """Write an entry to the audit log and to the service's log; return False if only the latter
        has it. Does not raise."""
        self.log.warning("audit: %s", entry.model_dump_json(exclude={"id"}))
        try:
            await self.store.audit.add_entry(entry)
        except PortalError as error:
            self.log.error("The audit log could not be written: %s", error)
            return False
        return True


def origin(request: Any) -> str:
    """Return the origin of a request, by X-Forwarded-For: the last address is the one that the
    Hub's proxy saw; those before it come from a proxy of the site, or from the client itself.

    Tornado's ``remote_ip`` would trust an X-Real-Ip that any client can send.
    """
    addresses = re.sub(r"[^0-9A-Fa-f:., ]", "?", request.headers.get("X-Forwarded-For", ""))
    return addresses[-200:] or str(request.remote_ip or "")
