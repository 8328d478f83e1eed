"""Help: a member of a course's staff in a student's session, for a while and always visible.

The grant is a share of one server (JupyterHub's, which does not expire) that the portal makes and
revokes. The session itself asks every few seconds who is in now (``guests``), and lets nobody else
in: an end here takes effect there at once, whether the Hub could be told or not.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from portal.errors import Conflict, InvalidRequest, NotAllowed, NotFound, PortalError
from portal.hubapi import HubApi
from portal.models.audit import AuditedAction, AuditEntry, Outcome
from portal.models.course.audit import CourseAudit
from portal.models.course.course import StoredCourse
from portal.models.course.live import Help, HelpState
from portal.models.session.session import SessionRecord, SessionState
from portal.models.space import STAFF, Role, SpaceState
from portal.models.words import duration
from portal.store import Store

from ..settings import Courses

PORTAL = "portal"  # the actor of its own lines in the audit log
ANSWER_WITHIN = 300.0  # seconds that a student has to answer
_SHARES_EVERY = 60.0  # seconds between two looks for unknown shares
_SET = 5.0  # seconds between two clocks from which the system clock counts as set
_NO_SUBDOMAINS = (
    "Help is off at this site: without subdomains (JupyterHub.subdomain_host), a student's code "
    "could act with the permissions of the helper. An admin of the portal can enable subdomains."
)
_OFF = "Help is off in this course. Its instructor can enable it in the settings."


@dataclass
class Helping:
    """Help in courses; one instance a service. ``note`` writes to the audit log and does not
    raise; ``subdomains``: whether each person's servers have an own host. ``uptime`` is a
    monotonic clock, by which help lasts its minutes; ``now`` (Unix seconds) is for what is stored.

    Methods raise StoreUnavailable, except those that answer from memory.
    """

    store: Store
    hub: HubApi
    settings: Courses
    subdomains: bool
    note: Callable[[AuditEntry], Awaitable[object]]
    log: logging.Logger
    uptime: Callable[[], float] = time.monotonic
    _open: dict[int, Help] = field(default_factory=dict)
    _ends: dict[int, float] = field(default_factory=dict)  # of what is open, by ``uptime``
    _unsaved: dict[int, Help] = field(default_factory=dict)  # ended while the database was away
    _known: bool = False
    _shares_at: float = float("-inf")
    _shares_left: bool = False  # that the Hub could not take back
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)

    # -- from memory ---------------------------------------------------------------------------

    def policy(self, stored: StoredCourse) -> str:
        """Return the course's policy: "ask", "always" or "off"; "off" without subdomains."""
        return stored.course.help if self.subdomains else "off"

    def why_off(self, stored: StoredCourse) -> str:
        """Return the sentence why nobody can be helped in this course; "" if they can."""
        if not self.subdomains:
            return _NO_SUBDOMAINS
        return _OFF if stored.course.help == "off" else ""

    def of_session(self, session_id: str) -> tuple[Help, ...]:
        """Return the open requests and grants for a session, oldest first."""
        return tuple(request for request in self._open.values() if request.session_id == session_id)

    def of_course(self, course: str) -> tuple[Help, ...]:
        """Return the open requests and grants in a course, oldest first."""
        return tuple(request for request in self._open.values() if request.course == course)

    def guests(self, session_id: str) -> dict[str, float]:
        """Return who may be in a session now, and for how many more seconds."""
        return {
            request.helper: left
            for request in self.of_session(session_id)
            if request.state is HelpState.GRANTED and (left := self._left(request)) > 0
        }

    # -- what people do ------------------------------------------------------------------------

    async def ask(
        self, stored: StoredCourse, student: str, helper: str, minutes: int, now: float
    ) -> tuple[Help, str]:
        """Request help, or begin at once if the course wants that; ``helper`` is of its staff.

        The result has the URL of the session, "" while nobody may enter. A repeated request
        returns the existing one. Raises NotAllowed if help is off, InvalidRequest, NotFound if
        ``student`` is none here, Conflict if no session of theirs runs, and what the Hub refuses.
        """
        if why := self.why_off(stored):
            raise NotAllowed(why)
        if minutes > self.settings.help_minutes:
            most = duration(60 * self.settings.help_minutes)
            raise InvalidRequest(f"The limit is {most}. You can ask again afterwards.", "minutes")
        roles = {
            entry.person: entry.role for entry in await self.store.members.of_space(stored.name)
        }
        if roles.get(student) is not Role.STUDENT:
            raise NotFound(f"'{student}' is not a student of this course.")
        if stored.state is not SpaceState.APPROVED:
            raise Conflict("This course is not approved.")
        record = await self._session(stored, student)
        async with self._one_at_a_time:
            await self._ready(now)
            for entry in self.of_session(record.id):
                if entry.helper == helper:
                    return await self._as_it_is(entry)
            asked = await self.store.help.add_row(
                Help(
                    course=stored.name,
                    student=student,
                    server=stored.course.server,
                    session_id=record.id,
                    helper=helper,
                    state=HelpState.ASKED,
                    minutes=minutes,
                    asked_at=now,
                )
            )
            self._take(asked, ANSWER_WITHIN)
            if stored.course.help == "always":
                return await self._grant(asked, now)
        return asked, ""

    async def agree(self, help: Help, now: float) -> Help:
        """Let the helper in, for the student. Raises Conflict if the request is no longer open."""
        async with self._one_at_a_time:
            await self._ready(now)
            if self._open.get(help.id) is None or help.state is not HelpState.ASKED:
                raise Conflict("This request is no longer open.")
            granted, _ = await self._grant(help, now)
        return granted

    async def end(self, help: Help, by: str, now: float) -> Help:
        """End help, or its request, at once. A Hub or store that does not answer is told later."""
        async with self._one_at_a_time:
            await self._ready(now)
            return await self._end(help, HelpState.ENDED, by, now)

    async def refuse(self, help: Help, now: float) -> Help:
        """Refuse a request, for the student. Raises Conflict if it is no longer open."""
        async with self._one_at_a_time:
            await self._ready(now)
            if self._open.get(help.id) is None or help.state is not HelpState.ASKED:
                raise Conflict("This request is no longer open.")
            return await self._end(help, HelpState.REFUSED, help.student, now)

    async def end_all(self, course: str, by: str, now: float) -> None:
        """End all help in a course that is over or archived."""
        for request in self.of_course(course):
            await self.end(request, by, now)

    async def get(self, id: int, now: float) -> Help:
        """Return the open request or grant of this number. Raises NotFound."""
        async with self._one_at_a_time:
            await self._ready(now)
        if id not in self._open:
            raise NotFound(f"There is no help {id}, or it has ended.")
        return self._open[id]

    # -- by itself -----------------------------------------------------------------------------

    async def run_due(self, now: float) -> None:
        """End what is over, at ``now`` in Unix seconds. Called every few seconds. Raises
        HubUnavailable too."""
        async with self._one_at_a_time:
            await self._ready(now)
            for request in list(self._unsaved.values()):
                await self.store.help.save(request)
                del self._unsaved[request.id]
            await self._dated_anew(now)
            for request, why in await self._over():
                await self._end(request, HelpState.ENDED, why, now)
                await self._note(
                    CourseAudit.END_HELP, request, now, f"{request.helper} lost access: {why}."
                )
            if self.uptime() - self._shares_at >= _SHARES_EVERY:
                await self._take_back_others()
                if not self._shares_left:
                    self._shares_at = self.uptime()

    async def _over(self) -> list[tuple[Help, str]]:
        """Return what is over, each with the reason in words."""
        if not self._open:
            return []
        living = {entry.id for entry in await self.store.sessions.living()}
        courses = {entry.course for entry in self._open.values()}
        roles = {
            (name, entry.person): entry.role
            for name in courses
            for entry in await self.store.members.of_space(name)
        }
        states = {name: (await self.store.courses.get(name)).state for name in courses}
        ended = []
        for entry in self._open.values():
            if self._left(entry) <= 0:
                asked = entry.state is HelpState.ASKED
                why = "the student did not answer" if asked else "the time limit was reached"
            elif entry.session_id not in living:
                why = "the session has ended"
            elif states[entry.course] is not SpaceState.APPROVED:
                why = "the course is no longer approved"
            elif roles.get((entry.course, entry.helper)) not in STAFF:
                why = "the helper is no longer on the course's staff"
            elif roles.get((entry.course, entry.student)) is not Role.STUDENT:
                why = "the student is no longer in the course"
            else:
                continue
            ended.append((entry, why))
        return ended

    async def _dated_anew(self, now: float) -> None:
        """Correct the ends of help after the system clock was set: pages and sessions hide help
        that seems to be over."""
        for request in list(self._open.values()):
            until = now + self._left(request)
            if request.until is not None and abs(request.until - until) > _SET:
                self._open[request.id] = request.model_copy(update={"until": until})
                await self.store.help.save(self._open[request.id])

    async def _take_back_others(self) -> None:
        """Revoke every share of a course's server that is not current help. Raises
        HubUnavailable."""
        granted = {
            (request.student, request.server, request.helper)
            for request in self._open.values()
            if request.state is HelpState.GRANTED
        }
        shares = await self.hub.shares()
        self._shares_left = False
        for user, server, person in shares:
            if (user, server, person) not in granted:
                self.log.warning(
                    "%s has a share of %s/%s that belongs to no help", person, user, server
                )
                await self._unshare(user, server, person)

    # -- pieces --------------------------------------------------------------------------------

    async def _ready(self, now: float) -> None:
        """Load what was open before this service began. A clock that was set meanwhile prolongs
        none of it."""
        if not self._known:
            for request in await self.store.help.open():
                whole = ANSWER_WITHIN if request.until is None else 60.0 * request.minutes
                until = request.asked_at + ANSWER_WITHIN if request.until is None else request.until
                self._take(request, min(until - now, whole))
            self._known = True

    def _take(self, help: Help, seconds: float) -> None:
        """Keep it open for ``seconds`` from now."""
        self._open[help.id], self._ends[help.id] = help, self.uptime() + seconds

    def _left(self, help: Help) -> float:
        """Return the seconds for which it stays open; 0 or less if it is over."""
        return self._ends.get(help.id, float("-inf")) - self.uptime()

    async def _session(self, stored: StoredCourse, student: str) -> SessionRecord:
        records, _ = await self.store.sessions.find(user=student, ended=False, limit=100)
        for record in records:
            is_of_course = (record.server, record.space) == (stored.course.server, stored.name)
            if is_of_course and record.state is SessionState.RUNNING:
                return record
        raise Conflict(f"{student} has no running session of this course.")

    async def _as_it_is(self, help: Help) -> tuple[Help, str]:
        if help.state is HelpState.ASKED:
            return help, ""
        return help, await self.hub.share(help.student, help.server, help.helper)

    async def _grant(self, help: Help, now: float) -> tuple[Help, str]:
        until = now + 60 * help.minutes
        new = {"state": HelpState.GRANTED, "granted_at": now, "until": until}
        granted = help.model_copy(update=new)
        await self.store.help.save(granted)
        try:
            url = await self.hub.share(help.student, help.server, help.helper)
        except PortalError:
            await self._end(granted, HelpState.ENDED, "the Hub refused the share", now)
            raise
        self._take(granted, 60.0 * help.minutes)
        words = f"{help.helper} can see and use this session for {duration(60 * help.minutes)}."
        await self._note(CourseAudit.GRANT_HELP, granted, now, words)
        return granted, url

    async def _end(self, help: Help, state: HelpState, by: str, now: float) -> Help:
        """Remove it from memory first: from then on the session lets nobody in."""
        self._open.pop(help.id, None)
        self._ends.pop(help.id, None)
        ended = help.model_copy(update={"state": state, "ended_at": now, "ended_by": by})
        self._unsaved[help.id] = ended
        try:
            await self.store.help.save(ended)
            del self._unsaved[help.id]
        except PortalError as error:
            self.log.warning("The end of help %d could not be stored yet: %s", help.id, error)
        if help.state is HelpState.GRANTED:
            await self._unshare(help.student, help.server, help.helper)
        return ended

    async def _unshare(self, user: str, server: str, person: str) -> None:
        """Revoke the share; if the Hub is away, the next look for unknown shares does."""
        try:
            await self.hub.unshare(user, server, person)
        except NotFound:
            pass  # the server, and the share with it, is gone
        except PortalError as error:
            self._shares_left, self._shares_at = True, float("-inf")
            self.log.warning("The share of %s/%s could not be removed: %s", user, server, error)

    async def _note(self, action: AuditedAction, help: Help, now: float, detail: str) -> None:
        await self.note(
            AuditEntry(
                at=now,
                actor=PORTAL,
                action=action,
                target=f"session {help.session_id}",
                owner=help.student,
                outcome=Outcome.DONE,
                detail=f"Course {help.course}. {detail}",
            )
        )
