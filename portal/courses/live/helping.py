"""Help: a member of a course's staff in a student's session, for a while and never unseen.

The grant is a share of one server (JupyterHub's, which has no end of its own) that the portal makes
and takes back. The session itself asks, seconds apart, who is in now (``guests``), and lets nobody
else in: what is ended here is over there at once, whether the Hub could be told or not.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from portal.errors import Conflict, InvalidRequest, NotAllowed, NotFound, PortalError
from portal.hubapi import HubApi
from portal.models.audit import AuditEntry, Outcome
from portal.models.course.course import STAFF, CourseState, KeptCourse, Role
from portal.models.course.live import Help, HelpState
from portal.models.session.session import SessionRecord, SessionState
from portal.store import Store

from ..settings import Courses

PORTAL = "portal"  # the actor of its own lines in the audit log
ANSWER_WITHIN = 300.0  # seconds that a student has to answer
_SHARES_EVERY = 60.0  # seconds between two looks for shares that nobody knows
_SET = 5.0  # seconds by which two clocks must have moved apart: then the machine's was set
_NO_SUBDOMAINS = (
    "Help is off here: without subdomains (JupyterHub.subdomain_host), a student's code would run "
    "with the rights of whoever opens that session. An admin of the portal can switch them on."
)
_OFF = "Help is off in this course. Its instructor can change that."


@dataclass
class Helping:
    """One a service. ``note`` writes a line of the audit log and does not raise; ``subdomains``:
    whether each person's servers have a host of their own. ``uptime`` is a clock that nobody sets:
    help goes on for its minutes by that one, and ``now`` (Unix seconds) is for what is kept.

    Every method raises StoreUnavailable but those that answer from memory.
    """

    store: Store
    hub: HubApi
    settings: Courses
    subdomains: bool
    note: Callable[[AuditEntry], Awaitable[None]]
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

    def policy(self, kept: KeptCourse) -> str:
        """ "ask", "always" or "off", as it is in this course here."""
        return kept.course.help if self.subdomains else "off"

    def why_off(self, kept: KeptCourse) -> str:
        """The sentence why nobody can be helped in this course; "" where they can."""
        if not self.subdomains:
            return _NO_SUBDOMAINS
        return _OFF if kept.course.help == "off" else ""

    def of_session(self, session_id: str) -> tuple[Help, ...]:
        """What is asked and granted for one session, the oldest first."""
        return tuple(one for one in self._open.values() if one.session_id == session_id)

    def of_course(self, course: str) -> tuple[Help, ...]:
        """What is asked and granted in one course, the oldest first."""
        return tuple(one for one in self._open.values() if one.course == course)

    def guests(self, session_id: str) -> dict[str, float]:
        """Who may be in a session now, and for how many seconds more."""
        return {
            one.helper: left
            for one in self.of_session(session_id)
            if one.state is HelpState.GRANTED and (left := self._left(one)) > 0
        }

    # -- what people do ------------------------------------------------------------------------

    async def ask(
        self, kept: KeptCourse, student: str, helper: str, minutes: int, now: float
    ) -> tuple[Help, str]:
        """Ask to help, or begin at once where the course wants that; ``helper`` is of its staff.

        With it comes the address of the session, "" while nobody may enter. Whoever asks again
        gets what there is. Raises NotAllowed where help is off, InvalidRequest, NotFound for who is
        no student here, Conflict where no session of theirs runs; what the Hub refuses.
        """
        if why := self.why_off(kept):
            raise NotAllowed(why)
        if minutes > self.settings.help_minutes:
            raise InvalidRequest(
                f"At most {self.settings.help_minutes} minutes, then ask again.", "minutes"
            )
        roles = {one.person: one.role for one in await self.store.members.of(kept.name)}
        if roles.get(student) is not Role.STUDENT:
            raise NotFound(f"'{student}' is no student of this course.")
        if kept.state is not CourseState.APPROVED:
            raise Conflict("This course does not run.")
        record = await self._session(kept, student)
        async with self._one_at_a_time:
            await self._ready(now)
            for one in self.of_session(record.id):
                if one.helper == helper:
                    return await self._as_it_is(one)
            asked = await self.store.help.add(
                Help(
                    course=kept.name,
                    student=student,
                    server=kept.course.server,
                    session_id=record.id,
                    helper=helper,
                    state=HelpState.ASKED,
                    minutes=minutes,
                    asked_at=now,
                )
            )
            self._take(asked, ANSWER_WITHIN)
            if kept.course.help == "always":
                return await self._grant(asked, now)
        return asked, ""

    async def agree(self, help: Help, now: float) -> Help:
        """The student lets the helper in. Raises Conflict where that is no longer asked."""
        async with self._one_at_a_time:
            await self._ready(now)
            if self._open.get(help.id) is None or help.state is not HelpState.ASKED:
                raise Conflict("Nobody asks for this any more.")
            granted, _ = await self._grant(help, now)
        return granted

    async def end(self, help: Help, by: str, now: float) -> Help:
        """The helper is out from now on, or no longer asks; who does not answer is told later."""
        async with self._one_at_a_time:
            await self._ready(now)
            return await self._end(help, HelpState.ENDED, by, now)

    async def refuse(self, help: Help, now: float) -> Help:
        """The student does not want it. Raises Conflict where that is no longer asked."""
        async with self._one_at_a_time:
            await self._ready(now)
            if self._open.get(help.id) is None or help.state is not HelpState.ASKED:
                raise Conflict("Nobody asks for this any more.")
            return await self._end(help, HelpState.REFUSED, help.student, now)

    async def end_all(self, course: str, by: str, now: float) -> None:
        """Everybody who helps in a course is out: it is over, or archived."""
        for one in self.of_course(course):
            await self.end(one, by, now)

    async def get(self, id: int, now: float) -> Help:
        """What is asked or granted under this number. Raises NotFound."""
        async with self._one_at_a_time:
            await self._ready(now)
        if id not in self._open:
            raise NotFound(f"There is no help {id}, or it is over.")
        return self._open[id]

    # -- by itself -----------------------------------------------------------------------------

    async def look(self, now: float) -> None:
        """End what is over, at ``now`` in Unix seconds. Called every few seconds. Raises
        HubUnavailable too."""
        async with self._one_at_a_time:
            await self._ready(now)
            for one in list(self._unsaved.values()):
                await self.store.help.save(one)
                del self._unsaved[one.id]
            await self._dated_anew(now)
            for one, why in await self._over():
                await self._end(one, HelpState.ENDED, why, now)
                await self._note("end-help", one, now, f"{one.helper} is out: {why}.")
            if self.uptime() - self._shares_at >= _SHARES_EVERY:
                await self._take_back_others()
                if not self._shares_left:
                    self._shares_at = self.uptime()

    async def _over(self) -> list[tuple[Help, str]]:
        """Which are over, and why, in words."""
        if not self._open:
            return []
        living = {one.id for one in await self.store.sessions.living()}
        courses = {one.course for one in self._open.values()}
        roles = {
            (name, one.person): one.role
            for name in courses
            for one in await self.store.members.of(name)
        }
        states = {name: (await self.store.courses.get(name)).state for name in courses}
        found = []
        for one in self._open.values():
            if self._left(one) <= 0:
                asked = one.state is HelpState.ASKED
                why = "nobody answered" if asked else "the time is over"
            elif one.session_id not in living:
                why = "the session is over"
            elif states[one.course] is not CourseState.APPROVED:
                why = "the course is over"
            elif roles.get((one.course, one.helper)) not in STAFF:
                why = "the helper is no longer of the course's staff"
            elif roles.get((one.course, one.student)) is not Role.STUDENT:
                why = "the student is no longer in the course"
            else:
                continue
            found.append((one, why))
        return found

    async def _dated_anew(self, now: float) -> None:
        """Say by the machine's clock when help ends, after that was set: pages and sessions show
        none that they take for over."""
        for one in list(self._open.values()):
            until = now + self._left(one)
            if one.until is not None and abs(one.until - until) > _SET:
                self._open[one.id] = one.model_copy(update={"until": until})
                await self.store.help.save(self._open[one.id])

    async def _take_back_others(self) -> None:
        """Take back every share of a course's server that is no help that goes on. Raises
        HubUnavailable."""
        granted = {
            (one.student, one.server, one.helper)
            for one in self._open.values()
            if one.state is HelpState.GRANTED
        }
        shares = await self.hub.shares()
        self._shares_left = False
        for user, server, person in shares:
            if (user, server, person) not in granted:
                self.log.warning("%s has a share of %s/%s that is no help", person, user, server)
                await self._unshare(user, server, person)

    # -- pieces --------------------------------------------------------------------------------

    async def _ready(self, now: float) -> None:
        """What was asked and granted before this service began. A clock that was set meanwhile
        makes none of it longer than it was to be."""
        if not self._known:
            for one in await self.store.help.open():
                whole = ANSWER_WITHIN if one.until is None else 60.0 * one.minutes
                until = one.asked_at + ANSWER_WITHIN if one.until is None else one.until
                self._take(one, min(until - now, whole))
            self._known = True

    def _take(self, help: Help, seconds: float) -> None:
        """Open it, for so long from now on."""
        self._open[help.id], self._ends[help.id] = help, self.uptime() + seconds

    def _left(self, help: Help) -> float:
        """Seconds that it is open for; 0 and less once that is over."""
        return self._ends.get(help.id, float("-inf")) - self.uptime()

    async def _session(self, kept: KeptCourse, student: str) -> SessionRecord:
        found, _ = await self.store.sessions.find(user=student, ended=False, limit=100)
        for one in found:
            mine = (one.server, one.course) == (kept.course.server, kept.name)
            if mine and one.state is SessionState.RUNNING:
                return one
        raise Conflict(f"No session of {student} runs in this course now.")

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
            await self._end(granted, HelpState.ENDED, "the Hub refused", now)
            raise
        self._take(granted, 60.0 * help.minutes)
        words = f"{help.helper} may see and use this session for {help.minutes} minutes."
        await self._note("grant-help", granted, now, words)
        return granted, url

    async def _end(self, help: Help, state: HelpState, by: str, now: float) -> Help:
        """Out of memory first: from then on the session lets nobody in."""
        self._open.pop(help.id, None)
        self._ends.pop(help.id, None)
        ended = help.model_copy(update={"state": state, "ended_at": now, "ended_by": by})
        self._unsaved[help.id] = ended
        try:
            await self.store.help.save(ended)
            del self._unsaved[help.id]
        except PortalError as error:
            self.log.warning("The end of help %d is not kept yet: %s", help.id, error)
        if help.state is HelpState.GRANTED:
            await self._unshare(help.student, help.server, help.helper)
        return ended

    async def _unshare(self, user: str, server: str, person: str) -> None:
        """Take the share back; where the Hub is away, the next look for others' shares does."""
        try:
            await self.hub.unshare(user, server, person)
        except NotFound:
            pass  # the server, and the share with it, is gone
        except PortalError as error:
            self._shares_left, self._shares_at = True, float("-inf")
            self.log.warning("The share of %s/%s is still there: %s", user, server, error)

    async def _note(self, action: str, help: Help, now: float, detail: str) -> None:
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
