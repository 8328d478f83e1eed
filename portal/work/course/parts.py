"""Objects of the web service for courses."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from portal.catalog.builds.node_copies import NodeCopies
from portal.courses.context import CourseContext
from portal.courses.definition.readiness import CourseReadiness
from portal.courses.definition.rules import CourseRules
from portal.courses.definition.service import CourseService
from portal.courses.files.collecting import Collecting, OpenCollects
from portal.courses.files.handouts import CourseHandouts
from portal.courses.live.boards import CourseBoards
from portal.courses.live.helping import Helping
from portal.courses.live.rooms import Rooms
from portal.courses.live.situations import CourseSituations
from portal.courses.roster.destinations import course_destinations
from portal.courses.roster.enrolment import Enrolment
from portal.courses.roster.my_courses import courses_of
from portal.courses.roster.unenrol import Unenrolment
from portal.courses.schedule.work import CourseWork
from portal.courses.settings import Courses
from portal.errors import StoreUnavailable
from portal.models.cluster.cluster import ClusterSnapshot
from portal.models.course.course import group_of
from portal.models.course.live import CourseSituation
from portal.models.destination import Destination
from portal.models.home import HomePart, Place, Since
from portal.models.person import Person
from portal.models.scope import COURSES_MANAGE
from portal.models.session.session import SessionRecord
from portal.slurm.control.reservations import ReservationControl
from portal.work.course.home import HomeCourses

if TYPE_CHECKING:
    from portal.assembly import Services


class CourseParts:
    """Parts for courses, made once; ``tasks``: the loop that the service keeps running."""

    def __init__(self, services: Services) -> None:
        store, hub, log, note = services.store, services.hub, services.log, services.note
        cluster, dashboard, subdomains = services.cluster, services.dashboard, services.subdomains
        self._dashboard, self._memberships = dashboard, services.memberships.of_type("course")
        self._store, self._prefix = store, services.prefix
        self._home = HomeCourses(services)
        self.settings = services.settings.get(Courses)
        reserving = ReservationControl(cluster.runner)
        rules = CourseRules(
            self.settings, services.catalog, store, self._snapshot, lambda n: cluster.has_account(n)
        )
        enrolment = Enrolment(
            store,
            self._memberships,
            services.directory,
            self.settings,
            log,
            Unenrolment(store, hub, log).left,
        )
        self.course_service = CourseService(
            store, self._memberships, rules, enrolment, self.settings
        )
        self.readiness = CourseReadiness(store, cluster, self._snapshot, reserving)
        self.helping = Helping(store, hub, self.settings, subdomains, note, log)
        self.rooms = Rooms(store, hub, subdomains, note, log)
        self.handouts = CourseHandouts(store, self.settings, log)
        self.collecting = Collecting(store, self.settings)
        self.open_collects = OpenCollects(self.collecting)
        self.boards = CourseBoards(store, dashboard)
        images = services.build_scheduler.images
        context = CourseContext(
            store=store,
            hub=hub,
            memberships=self._memberships,
            settings=self.settings,
            cluster=cluster,
            control=services.control,
            reserving=reserving,
            view=lambda: dashboard.view,
            note=note,
            log=log,
            wall=time.time,
            copy=NodeCopies(cluster, images, log).failures if images.node_cache else None,
        )
        self.course_work = CourseWork(context, self.helping, enrolment, self.rooms, self.handouts)
        self.course_situations = CourseSituations(
            store, dashboard, self.helping, self._handout_of, self.open_collects.of_session
        )
        self.tasks: dict[str, Callable[[], Awaitable[None]]] = {"course task": self.course_work.run}

    def groups_of(self, person: Person) -> Iterator[str]:
        """Yield the groups of the person's courses, which may be newer than the login's."""
        return (group_of(member.space) for member in self._memberships.known(person.name))

    async def on_sessions_page(self, person: str) -> tuple[str, dict[str, Any]]:
        """Return the template of a part of the page of sessions, and its variables."""
        return "sessions_courses.html", {"courses": await courses_of(self._memberships, person)}

    async def destinations_for(self, person: Person, text: str) -> Sequence[Destination]:
        """Return what has to do with courses and that a person can go to by name."""
        creates = self.course_service.may_create(person)
        return await course_destinations(
            self._store, self._memberships, person, self._prefix, creates=creates
        )

    def home_parts(self, person: Person, since: Since) -> Iterator[HomePart]:
        """Yield Home's parts of courses."""
        home = self._home
        today, following = partial(home.today, person), partial(home.following, person)
        yield HomePart("today", "Your courses today", Place.TODAY, "course_home_today.html", today)
        yield HomePart("classes", "Next class", Place.NEXT, "course_home_next.html", following)
        if person.may(COURSES_MANAGE):
            requests, title = home.requests, "Courses to approve"
            yield HomePart("course-requests", title, Place.TODAY, "home_tasks.html", requests)

    @property
    def incoming(self) -> Path:
        """Folder of the service's own for incoming files."""
        return Path(self.settings.directory or "courses").resolve() / ".incoming"

    async def status_of(self, record: SessionRecord) -> dict[str, CourseSituation | None]:
        """Return what a session is told of its course."""
        return {"course": await self.course_situations.status_of(record)}

    def _snapshot(self) -> ClusterSnapshot | None:
        """Return the cluster as everyone sees it; None while nothing is known."""
        return self._dashboard.view.snapshot if self._dashboard.view else None

    async def _handout_of(self, record: SessionRecord) -> str:
        """Return the revision of its course's handouts that a session should have now; "" if that
        is unknown, or can wait."""
        if await self.course_work.rush.waits(record):
            return ""
        try:
            return await self.handouts.newest(record.space)
        except StoreUnavailable:
            return ""
