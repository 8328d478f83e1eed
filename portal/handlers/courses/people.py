"""Actions of a course's staff on students' sessions, one or all: start, stop, restart, extend.

Only servers ``course-NAME`` of the course's members are ever reached, and their kernels in jobs of
their own and runs of the course, whatever else of theirs runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from portal.courses.live.board import living_jobs, newest_sessions
from portal.courses.roster.joining import not_joined, refusal
from portal.errors import Conflict, NotAllowed, NotFound, PortalError, SlurmUnavailable
from portal.launch.extending import extended
from portal.models import Frozen
from portal.models.audit import AuditAction
from portal.models.course.audit import CourseAudit
from portal.models.session.session import SessionRecord, SessionState
from portal.models.space import STAFF, Login, Member
from portal.models.words import clock, duration
from portal.work.course.parts import CourseParts
from portal.work.kernel.kind import JobKernel

from ..base.action import Confirmation, SessionAction
from ..base.endpoint import Operation
from ..sessions.extend import ExtendAction, Extended, Extension
from .access import COURSE, EVERYONE, CourseAction

LOGIN = r"[^\s\x00-\x1f\x7f,:/]{1,255}"
_DAY = 86400.0
_STOPPING = 90.0  # seconds that a restart waits for the old session to be gone
_LOOK = 0.5
_AT_ONCE = 8  # scontrol processes of one request


class CoursePersonAction(CourseAction, SessionAction):
    """Base class of actions on the sessions of a course's members."""

    roles = STAFF
    # Kernels and runs by person, as ``living`` saw them.
    jobs: Mapping[str, Sequence[SessionRecord]] = {}

    async def member(self, person: str) -> Member:
        """Return the member; for others raise NotAllowed, with an entry in the audit log."""
        for member in await self.parts.memberships.of_type("course").of_user(person, fresh=True):
            if member.space == self.stored.name:
                return member
        error = NotAllowed(f"{person} is not a member of the course '{self.stored.name}'.")
        await self.deny(self.target, error, person, f"{person} is not a member.")

    async def living(self) -> dict[str, SessionRecord]:
        """Return the course's sessions that have not ended, by person; note their kernels
        and runs."""
        store, name = self.parts.store, self.stored.name
        records = await store.sessions.of_space(name, time.time() - _DAY)
        self.jobs = living_jobs(self.stored, records)
        newest = newest_sessions(self.stored, records)
        return {
            person: session
            for person, session in newest.items()
            if session.state is not SessionState.ENDED
        }

    async def living_of(self, person: str) -> SessionRecord:
        """Return this member's session. Raises Conflict if there is none."""
        await self.member(person)
        record = (await self.living()).get(person)
        if record is None:
            raise Conflict(f"{person} has no session of this course.")
        return record

    async def start(self, person: str) -> None:
        """Ask the Hub for the session, which it judges as it does the student's own launch."""
        await self.startable(person)
        async with self.audited(AuditAction.START_SESSION, self.target, person, f"For {person}."):
            server, options = self.stored.course.server, {"course": self.stored.name}
            hub = self.parts.hub
            try:
                await hub.start_server(person, server, options)
            except NotFound:  # never logged in: created in the Hub, as by a start for all
                refused = (await hub.make_people([person])).get(person)
                if refused:
                    raise Conflict(refused) from None
                await hub.start_server(person, server, options)

    async def startable(self, person: str) -> None:
        """Deny a session of somebody who has not joined and would be charged for its GPUs."""
        member = await self.member(person)
        if person != self.person.name and not_joined(self.stored.course, member):
            await self.deny(
                self.target, refusal(person), person, "They have not joined the course."
            )

    async def stop_one(self, record: SessionRecord, *, runs: bool = False) -> None:
        """Stop a session and its kernels in jobs of their own, in the name of the requester; with
        ``runs``, also those of its owner in the course, which go on without the session."""
        detail = f"In the course '{self.stored.name}'."
        async with self.audited(
            AuditAction.STOP_SESSION, f"session {record.id}", record.user, detail
        ):
            await self.stop(record)
        for job in self.jobs.get(record.user, ()):
            if job.id != record.id and (runs or job.work == JobKernel.name):
                with contextlib.suppress(Conflict, NotFound):  # it may have ended with its session
                    await self.stop(job)

    @property
    def target(self) -> str:
        return f"course {self.stored.name}"

    def confirmation(self, message: str) -> Confirmation:
        """Return the answer, and have the board made anew for the next request."""
        self.parts_for(CourseParts).boards.forget(self.stored.name)
        return self.done(message)


class OpenDraft(Frozen):
    """``preview``: a session as students have it, for the course's staff."""

    preview: bool = False


class OpenOwn(CoursePersonAction):
    """Start of one's own session of the course."""

    path = "courses/{course}/open"
    roles = EVERYONE
    admins = False

    @Operation("Start your own session of a course.", body=OpenDraft, errors=(409,))
    async def on_post(self, course: str) -> Confirmation:
        """Start it like any launch of your own. A session that already starts or runs is left as it
        is.
        """
        preview = self.body.preview
        if preview and self.role not in STAFF:
            await self.deny(self.target, NotAllowed("Only the course's staff can open previews."))
        server = f"preview-{course}" if preview else self.stored.course.server
        name = self.person.name
        with contextlib.suppress(NotFound):
            if await self.parts.hub.runs(name, server):
                return self.done("Your session is already running or starting.")
        if not preview:
            await joined(self, course)
        async with self.audited(AuditAction.START_SESSION, self.target, name):
            await self.parts.hub.start_server(name, server, {"course": course})
        return self.confirmation("Your session is starting.")


class Join(CourseAction):
    """Participation in a course."""

    path = "courses/{course}/join"
    roles = EVERYONE
    admins = False

    @Operation("Join your course, so that its staff can start your sessions.")
    async def on_post(self, course: str) -> Confirmation:
        """Join yourself; you cannot join for other users."""
        async with self.audited(CourseAudit.JOIN_COURSE, f"course {course}", self.person.name):
            await joined(self, course)
        return self.done("You have joined the course.")


async def joined(handler: CourseAction, course: str) -> None:
    """Record that the requester takes part in the course."""
    parts = handler.parts
    if await parts.store.members.join(course, handler.person.name, time.time()):
        parts.memberships.forget()
        parts.parts_for(CourseParts).boards.forget(course)


_PERSON = {"course": COURSE, "person": LOGIN}


class StartPerson(CoursePersonAction):
    """Start of a member's session of the course."""

    path = "courses/{course}/people/{person}/start"
    parameters = _PERSON

    @Operation("Start a student's course session.", errors=(409,))
    async def on_post(self, course: str, person: str) -> Confirmation:
        """Start it within the course's resources, as if the student had pressed the button."""
        await self.start(person)
        return self.confirmation(f"{person}'s session is starting.")


class StopPerson(CoursePersonAction):
    """Stop of a member's session of the course."""

    path = "courses/{course}/people/{person}/stop"
    parameters = _PERSON

    @Operation("Stop a student's course session.", errors=(409,))
    async def on_post(self, course: str, person: str) -> Confirmation:
        """Leave their other sessions running. Saved files stay."""
        record = await self.living_of(person)
        await self.stop_one(record)
        return self.confirmation(f"{person}'s session is stopping.")


class RestartPerson(CoursePersonAction):
    """Restart of a member's session of the course."""

    path = "courses/{course}/people/{person}/restart"
    parameters = _PERSON

    @Operation("Restart a student's course session.", errors=(409,))
    async def on_post(self, course: str, person: str) -> Confirmation:
        """Start it if there is none. The answer comes when the new one is asked for."""
        await self.startable(person)  # before anything is stopped
        record = (await self.living()).get(person)
        if record is not None:
            await self.stop_one(record)
            await self._until_gone(person)
        await self.start(person)
        return self.confirmation(f"{person}'s session is restarting.")

    async def _until_gone(self, person: str) -> None:
        deadline = time.monotonic() + _STOPPING
        with contextlib.suppress(NotFound):  # the Hub has forgotten the server altogether
            while await self.parts.hub.runs(person, self.stored.course.server):
                if time.monotonic() > deadline:
                    raise Conflict(f"{person}'s session is still stopping. Try again in a moment.")
                await asyncio.sleep(_LOOK)


class ExtendPerson(ExtendAction, CoursePersonAction):
    """Extension of a member's session of the course."""

    path = "courses/{course}/people/{person}/extend"
    parameters = _PERSON

    @Operation("Extend a student's course session.", body=Extension, errors=(409, 429))
    async def on_post(self, course: str, person: str) -> Extended:
        """Extend it as far as the course's longest time, partition, QOS and account allow."""
        record = await self.living_of(person)
        answer = await self.extend(record)
        self.parts_for(CourseParts).boards.forget(self.stored.name)
        return answer

    def _may_extend(self) -> None:
        """Allow it: c.Extending.allowed is for owners, and a course sets its own limit."""


class People(Frozen):
    """People to act on; null: everyone who has a session."""

    people: Annotated[tuple[Login, ...], Field(max_length=5000)] | None = None


class ExtendedPeople(People):
    """People whose sessions are extended, and by how much."""

    minutes: Annotated[int, Field(ge=1, le=10080, strict=True)]


class PersonResult(Frozen):
    """Result for a person, in words."""

    person: str
    done: bool
    message: str = ""


class Results(Frozen):
    """Results of an action: what was done, and for whom it was not."""

    message: str
    done: int
    items: tuple[PersonResult, ...]


class AllAction(CoursePersonAction):
    """Base class of actions on many: some at a time, each with a result of its own."""

    verb: ClassVar[str]  # "stopped"

    async def for_all(self, work: Callable[[SessionRecord], Awaitable[str]]) -> Results:
        """Do ``work`` on the requested sessions; nobody's failure holds up another's."""
        living = await self.living()
        members = {
            member.person for member in await self.parts.store.members.of_space(self.stored.name)
        }
        wanted = set(members if self.body.people is None else self.body.people)
        if strangers := sorted(wanted - members):
            names = ", ".join(strangers[:5]) + (" and others" if len(strangers) > 5 else "")
            error = NotAllowed(f"Not members of the course '{self.stored.name}': {names}.")
            await self.deny(self.target, error, detail=f"Not members: {names}.")
        gate = asyncio.Semaphore(_AT_ONCE)

        async def attempt(record: SessionRecord) -> PersonResult:
            async with gate:
                try:
                    return PersonResult(person=record.user, done=True, message=await work(record))
                except PortalError as error:
                    return PersonResult(person=record.user, done=False, message=error.message)

        chosen = [living[person] for person in sorted(wanted) if person in living]
        items = await asyncio.gather(*map(attempt, chosen))
        if self.body.people is not None:
            items = [*items, *(_absent(person) for person in sorted(wanted - set(living)))]
        done = sum(item.done for item in items)
        message = f"{done} of {len(items)} sessions {self.verb}."
        if not items:
            message = "This course has no sessions now."
        return Results(message=self.confirmation(message).message, done=done, items=tuple(items))


def _absent(person: str) -> PersonResult:
    return PersonResult(person=person, done=False, message="There is no session.")


class StopAll(AllAction):
    """Stop of everyone's sessions, or of some."""

    path = "courses/{course}/stop-all"
    verb = "are stopping"

    async def living(self) -> dict[str, SessionRecord]:
        """Return what is to be stopped, by person; of those without a session, a kernel or run."""
        sessions = await super().living()
        return {**{name: jobs[0] for name, jobs in self.jobs.items()}, **sessions}

    @Operation("Stop the course sessions of all students, or of some.", body=People)
    async def on_post(self, course: str) -> Results:
        """Stop their kernels in jobs of their own and their runs of the course, too.

        Write a line in the audit log for each; the answer says for whom it failed, and why.
        """

        async def stop(record: SessionRecord) -> str:
            await self.stop_one(record, runs=True)
            return "Stopping."

        return await self.for_all(stop)


class ExtendAll(AllAction):
    """Extension of everyone's sessions, or of some."""

    path = "courses/{course}/extend-all"
    verb = "extended"

    @Operation(
        "Extend the running course sessions of all students, or of some.",
        body=ExtendedPeople,
        errors=(409,),
    )
    async def on_post(self, course: str) -> Results:
        """Extend each by the same minutes, as far as it may. Slurm's jobs are read once."""
        parts = self.parts
        await parts.catalog.load()
        await parts.control.need("jobs")
        snapshot = await parts.cluster.snapshot(
            time.monotonic(), jobs_only=False, urgent=True, qos=True, fresh_reservations=True
        )
        if snapshot.error:
            raise SlurmUnavailable(snapshot.error)

        async def extend(record: SessionRecord) -> str:
            detail = f"By {duration(60 * self.body.minutes)}, in the course '{self.stored.name}'."
            async with self.audited(
                AuditAction.EXTEND_SESSION, f"session {record.id}", record.user, detail
            ):
                account = record.account or record.user
                job = snapshot.jobs.get(record.job_id)
                if job is None or job.user != account:
                    raise Conflict("The session has already ended.")
                await parts.situations.expect(record)
                limits = await parts.cluster.associations(account)
                running = parts.situations.running(record, job, snapshot, limits)
                now = time.time()
                limit = extended(running, self.body.minutes, parts.extending, now)
                await parts.control.extend(job.id, limit)
            assert job.end_time is not None and job.time_limit is not None  # extended saw it
            end = clock(job.end_time + limit - job.time_limit, now, zone=True)
            return f"The session now ends at {end}."

        return await self.for_all(extend)


ENDPOINTS = (
    OpenOwn,
    Join,
    StartPerson,
    StopPerson,
    RestartPerson,
    ExtendPerson,
    StopAll,
    ExtendAll,
)
