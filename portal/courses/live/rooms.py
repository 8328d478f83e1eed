"""Rooms: shared notebooks, in a session of a course's staff that everyone in the course may enter.

The Hub shares this one server with each of them while the room is open. The session itself asks
every few seconds who may be in (``guests``), so that people who leave the course are out of its
room at once, whatever the Hub says by then.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from portal.errors import Conflict, NotFound, PortalError
from portal.hubapi import HubApi
from portal.models.audit import AuditEntry, Outcome
from portal.models.course.audit import CourseAudit
from portal.models.course.course import StoredCourse
from portal.models.course.room import Room
from portal.models.session.session import SessionRecord, SessionState
from portal.models.session.stop_reason import StopCode, StopReason
from portal.models.space import STAFF, SpaceState
from portal.store import Store

from .helping import PORTAL
from .presence import is_room

_SHARES_EVERY = 15.0  # seconds between checks of the shares: people join, first log in, leave
_STAY = 30.0  # seconds for which a session may let somebody in without asking again
_NO_SUBDOMAINS = (
    "Rooms are off at this site: without subdomains (JupyterHub.subdomain_host), code in a shared "
    "notebook could act with the permissions of everyone who opens it. An admin of the portal can "
    "enable subdomains."
)


@dataclass
class Rooms:
    """Rooms of courses; one instance a service. ``note`` writes to the audit log and does not
    raise; ``subdomains``: whether sessions have own hosts. Use of the store raises
    StoreUnavailable."""

    interval: ClassVar[float] = 5.0  # seconds between two looks

    store: Store
    hub: HubApi
    subdomains: bool
    note: Callable[[AuditEntry], Awaitable[object]]
    log: logging.Logger
    _people: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by session
    _closed: set[str] = field(default_factory=set)  # sessions that are being stopped
    # Owner and server of the rooms that the Hub shares. Nobody gets the URL of another one: the
    # Hub would refuse them.
    _shared: set[tuple[str, str]] = field(default_factory=set)
    _shares_at: float = float("-inf")
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)

    def why_not(self, stored: StoredCourse, now: float) -> str:
        """Return the sentence why the course has no room now; "" if its staff can open one."""
        if not self.subdomains:
            return _NO_SUBDOMAINS
        if not stored.course.together:
            return "Rooms are off in this course. Its instructor can enable them in the settings."
        if stored.state is not SpaceState.APPROVED:
            return "This course has no room, since it is not approved."
        return (
            "" if stored.runs(now) else "This course has no room, since today is outside its dates."
        )

    async def room_of(self, stored: StoredCourse, now: float) -> Room:
        """Return the course's room as it is now."""
        record = await self._living(stored.name)
        why_not = self.why_not(stored, now)
        if record is None:
            return Room(course=stored.name, why_not=why_not)
        running, url = record.state is SessionState.RUNNING, ""
        shared = (record.user, record.server) in self._shared
        if running and shared and record.id not in self._closed:
            url = await self.hub.room_url(record.user, record.server)
        return Room(
            course=stored.name,
            state=record.state,
            by=record.user,
            server=record.server,
            session_id=record.id,
            asked_at=record.submitted_at,
            since=record.started_at,
            url=url,
            people=self._people.get(record.id, ()),
            why_not=why_not,
        )

    async def open(self, stored: StoredCourse, person: str, now: float) -> None:
        """Start the room as ``person``'s session, and share it with the course.

        Raises Conflict if there is one, or none is possible, and what a launch raises.
        """
        async with self._one_at_a_time:
            if why_not := self.why_not(stored, now):
                raise Conflict(why_not)
            record = await self._living(stored.name)
            if record is not None:
                raise Conflict(f"{record.user} has already opened the room.")
            server = stored.course.room
            self._shared.discard((person, server))  # another session's
            await self.hub.start_server(person, server, {"course": stored.name})
            try:
                await self._share(person, server)
            except PortalError:
                await self._stop(person, server)
                raise

    async def close(self, stored: StoredCourse, by: str) -> SessionRecord:
        """Put everyone out, then stop the session. Raises Conflict if there is no room,
        HubUnavailable."""
        async with self._one_at_a_time:
            record = await self._living(stored.name)
            if record is None:
                raise Conflict("The room is not open.")
            await self._end(record, by)
            return record

    async def guests(self, record: SessionRecord, now: float) -> dict[str, float]:
        """Return who may be in this room now, and for how many more seconds."""
        if record.id in self._closed:
            return {}
        stored = await self.store.courses.get(record.space)
        if self.why_not(stored, now):
            return {}
        return {member.person: _STAY for member in await self.store.members.of_space(record.space)}

    def record_people(self, record: SessionRecord, people: Sequence[str]) -> None:
        """Record who is in a room, as its session reports."""
        self._people[record.id] = tuple(sorted(people))

    async def run_due(self, now: float) -> None:
        """Close rooms that must end, and correct the Hub's shares. Called often."""
        async with self._one_at_a_time:
            living = {session.id: session for session in await self._all_living()}
            self._people = {id: people for id, people in self._people.items() if id in living}
            self._closed &= living.keys()
            self._shared &= {(session.user, session.server) for session in living.values()}
            for record in living.values():
                if record.id not in self._closed and (why := await self._over(record, now)):
                    await self._end(record, reason=StopReason(code=StopCode.COURSE_OVER, words=why))
                    await self._note(record, now, why)
            if not 0 <= now - self._shares_at < _SHARES_EVERY:  # a clock may be set back
                await self._put_shares_right(living.values())
                self._shares_at = now

    # -- pieces --------------------------------------------------------------------------------

    async def _all_living(self) -> list[SessionRecord]:
        return [record for record in await self.store.sessions.living() if is_room(record)]

    async def _living(self, course: str) -> SessionRecord | None:
        return next((record for record in await self._all_living() if record.space == course), None)

    async def _over(self, record: SessionRecord, now: float) -> str:
        """Return why a room must end; "" if it may go on."""
        try:
            stored = await self.store.courses.get(record.space)
        except NotFound:
            return "The course no longer exists."
        if why := self.why_not(stored, now):
            return why
        staff = {
            member.person
            for member in await self.store.members.of_space(record.space)
            if member.role in STAFF
        }
        return "" if record.user in staff else f"{record.user} is no longer on the course's staff."

    async def _end(
        self, record: SessionRecord, by: str = "", reason: StopReason | None = None
    ) -> None:
        """Remove the room from memory, so that its session lets nobody in; then stop it."""
        self._closed.add(record.id)
        self._shared.discard((record.user, record.server))
        try:
            await self.hub.close_room(record.user, record.server)
        except NotFound:
            pass  # the server, and the share with it, is gone
        except PortalError as error:
            self._shares_at = float("-inf")
            self.log.warning("The share of %s could not be removed: %s", record.server, error)
        await self._stop(record.user, record.server, by, reason)

    async def _stop(
        self, user: str, server: str, by: str = "", reason: StopReason | None = None
    ) -> None:
        with contextlib.suppress(NotFound):
            await self.hub.stop_server(user, server, on_behalf_of=by, reason=reason)

    async def _share(self, user: str, server: str) -> None:
        await self.hub.open_room(user, server)
        self._shared.add((user, server))

    async def _put_shares_right(self, living: Iterable[SessionRecord]) -> None:
        """Share open rooms with the course's members of now, and no others with anybody."""
        open_ = {(record.user, record.server) for record in living if record.id not in self._closed}
        try:
            stale = set(await self.hub.rooms()) - open_
        except PortalError as error:
            self.log.warning("The shared rooms could not be read from the Hub: %s", error)
            stale = set()
        for work, rooms in ((self.hub.close_room, stale), (self._share, open_)):
            for user, server in sorted(rooms):
                try:
                    await work(user, server)
                except PortalError as error:  # a failure of one room must not affect others
                    self.log.warning(
                        "The shares of %s/%s could not be updated: %s", user, server, error
                    )

    async def _note(self, record: SessionRecord, now: float, detail: str) -> None:
        await self.note(
            AuditEntry(
                at=now,
                actor=PORTAL,
                action=CourseAudit.CLOSE_ROOM,
                target=f"session {record.id}",
                owner=record.user,
                outcome=Outcome.DONE,
                detail=detail,
            )
        )
