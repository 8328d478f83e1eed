"""Activity in the sessions of courses: presence, messages, help. Written by the service."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, select, update

from portal.errors import NotFound
from portal.models.course.live import CourseMessage, Help, HelpState, Presence

from ..engine.columns import LARGEST_ID
from ..engine.rows import ModelTable
from .rows import CourseRows
from .tables import course_help, course_messages, course_presence

_OPEN = (str(HelpState.ASKED), str(HelpState.GRANTED))
# Columns that each report of a session updates; the others stay as they are within the session.
_REPORTED = ("seen_at", "last_activity", "notebooks")


class PresenceTable(ModelTable[Presence]):
    """The table of presence, one row for each member. Every method raises StoreUnavailable."""

    table, model = course_presence, Presence

    async def save_report(self, presence: Presence) -> Presence:
        """Save a session's report about itself; return the row as it is now. The first
        ``opened_at`` is kept, and a new session begins anew."""
        return await self._change(presence, *_REPORTED, first="opened_at")

    async def raise_hand(self, presence: Presence) -> Presence:
        """Save ``hand`` and ``hand_at`` of a session; "" and None lower the hand."""
        return await self._change(presence, "hand", "hand_at", "seen_at")

    async def took_handout(self, presence: Presence) -> Presence:
        """Save ``handout`` and ``handout_message`` of a session."""
        return await self._change(presence, "handout", "handout_message")

    async def lower_hand(self, course: str, person: str) -> bool:
        """Lower a person's hand; return True if it was up."""
        this = (course_presence.c.course == course) & (course_presence.c.person == person)
        statement = update(course_presence).where(this, course_presence.c.hand != "")
        return bool(await self._write(statement.values(hand="", hand_at=None)))

    async def of_course(self, course: str) -> list[Presence]:
        """Return everyone in a course whose session ever reported, ordered by name."""
        query = select(course_presence).where(course_presence.c.course == course)
        return await self._models(query.order_by(course_presence.c.person))

    async def hands(self) -> list[Presence]:
        """Return the rows with a raised hand, in all courses, the longest raised first."""
        query = select(course_presence).where(course_presence.c.hand != "")
        return await self._models(query.order_by(course_presence.c.hand_at))

    async def _change(self, presence: Presence, *names: str, first: str = "") -> Presence:
        """Save the fields ``names`` of ``presence``, and ``first`` if it was not known; all of it
        if there is no row of its session yet. Return the row."""
        table = course_presence
        this = (table.c.course == presence.course) & (table.c.person == presence.person)

        def work(to: Connection) -> Presence:
            row = to.execute(select(table).where(this)).first()
            new = presence
            if row is not None and row.session_id == presence.session_id:
                before = self._made(row)
                changed = {name: getattr(presence, name) for name in names}
                if first:
                    changed[first] = getattr(before, first) or getattr(presence, first)
                new = before.model_copy(update=changed)
            to.execute(self._database.upsert(table), new.model_dump(mode="json"))
            return new

        return await self._database.run(work, write=True)


class CourseMessageTable(CourseRows[CourseMessage]):
    """The table of messages to courses. Every method raises StoreUnavailable."""

    table, model = course_messages, CourseMessage

    async def active(self, at: float) -> list[CourseMessage]:
        """Return the messages of all courses that are visible at ``at``, newest first."""
        query = select(course_messages).where(course_messages.c.ends_at > at)
        return await self._models(query.order_by(course_messages.c.id.desc()))

    async def withdraw(self, course: str, id: int, at: float) -> CourseMessage:
        """End a message at ``at``; one that is over stays as it is. Raises NotFound."""
        this = (course_messages.c.id == min(id, LARGEST_ID)) & (course_messages.c.course == course)

        def work(to: Connection) -> Row[Any] | None:
            over = update(course_messages).where(this, course_messages.c.ends_at > at)
            to.execute(over.values(ends_at=at))
            return to.execute(select(course_messages).where(this)).first()

        row = await self._database.run(work, write=True)
        if row is None:
            raise NotFound(f"This course has no message {id}.")
        return self._made(row)


class HelpTable(CourseRows[Help]):
    """The table of requests for help. Every method raises StoreUnavailable."""

    table, model = course_help, Help

    async def save(self, help: Help) -> None:
        """Update the request with the id of ``help``."""
        values = help.model_dump(mode="json", exclude={"id"})
        statement = update(course_help).where(course_help.c.id == help.id).values(values)
        await self._write(statement)

    async def open(self) -> list[Help]:
        """Return the requests that are asked or granted, in all courses, oldest first."""
        query = select(course_help).where(course_help.c.state.in_(_OPEN)).order_by(course_help.c.id)
        return await self._models(query)

    async def ended_since(self, at: float) -> list[Help]:
        """Return what was granted and ended at ``at`` or later, in all courses."""
        table = course_help
        over = table.c.granted_at.is_not(None) & (table.c.ended_at >= at)
        return await self._models(select(table).where(over).order_by(table.c.id))
