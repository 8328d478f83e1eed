"""Activity in the sessions of courses: presence, messages, help. Written by the service."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, select, update

from portal.errors import NotFound
from portal.models.course.live import CourseMessage, Help, HelpState, Presence

from ..engine.database import Database
from .tables import course_help, course_messages, course_presence

_OPEN = (str(HelpState.ASKED), str(HelpState.GRANTED))
_LARGEST_ID = 2**63 - 1
# Columns that each report of a session updates; the others stay as they are within the session.
_REPORTED = ("seen_at", "last_activity", "notebooks")


class PresenceTable:
    """The table of presence, one row for each member. Every method raises StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def tell(self, presence: Presence) -> Presence:
        """Save a session's report about itself; return the row as it is now. The first
        ``opened_at`` is kept, and a new session begins anew."""

        def change(before: Presence | None) -> Presence:
            if before is None:
                return presence
            new = {name: getattr(presence, name) for name in _REPORTED}
            new["opened_at"] = before.opened_at or presence.opened_at
            return before.model_copy(update=new)

        return await self._change(presence, change)

    async def raise_hand(self, presence: Presence) -> Presence:
        """Save ``hand`` and ``hand_at`` of a session; "" and None lower the hand."""

        def change(before: Presence | None) -> Presence:
            if before is None:
                return presence
            new = {"hand": presence.hand, "hand_at": presence.hand_at, "seen_at": presence.seen_at}
            return before.model_copy(update=new)

        return await self._change(presence, change)

    async def took_handout(self, presence: Presence) -> Presence:
        """Save ``handout`` and ``handout_message`` of a session."""

        def change(before: Presence | None) -> Presence:
            if before is None:
                return presence
            new = {name: getattr(presence, name) for name in ("handout", "handout_message")}
            return before.model_copy(update=new)

        return await self._change(presence, change)

    async def lower_hand(self, course: str, person: str) -> bool:
        """Lower a person's hand; return True if it was up."""
        this = (course_presence.c.course == course) & (course_presence.c.person == person)
        statement = update(course_presence).where(this, course_presence.c.hand != "")
        statement = statement.values(hand="", hand_at=None)
        count = await self._database.run(lambda to: to.execute(statement).rowcount, write=True)
        return bool(count)

    async def of(self, course: str) -> list[Presence]:
        """Return everyone in a course whose session ever reported, ordered by name."""
        query = select(course_presence).where(course_presence.c.course == course)
        query = query.order_by(course_presence.c.person)
        return await self._database.run(lambda at: [_presence(row) for row in at.execute(query)])

    async def hands(self) -> list[Presence]:
        """Return the rows with a raised hand, in all courses, the longest raised first."""
        query = select(course_presence).where(course_presence.c.hand != "")
        query = query.order_by(course_presence.c.hand_at)
        return await self._database.run(lambda at: [_presence(row) for row in at.execute(query)])

    async def _change(self, presence: Presence, change: Any) -> Presence:
        """Replace a session's row by ``change(row)``; None is no row, or another session's."""
        table = course_presence
        this = (table.c.course == presence.course) & (table.c.person == presence.person)

        def work(to: Connection) -> Presence:
            row = to.execute(select(table).where(this)).first()
            before = None if row is None else _presence(row)
            if before is not None and before.session_id != presence.session_id:
                before = None
            new: Presence = change(before)
            values = new.model_dump(mode="json")
            to.execute(self._database.upsert(table), values)
            return new

        return await self._database.run(work, write=True)


class CourseMessageTable:
    """The table of messages to courses. Every method raises StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, message: CourseMessage) -> CourseMessage:
        """Insert a message; return it with its id."""
        values = message.model_dump(exclude={"id"})
        statement = course_messages.insert().values(values).returning(course_messages)
        row = await self._database.run(lambda to: to.execute(statement).one(), write=True)
        return _message(row)

    async def active(self, at: float) -> list[CourseMessage]:
        """Return the messages of all courses that are visible at ``at``, newest first."""
        query = select(course_messages).where(course_messages.c.ends_at > at)
        query = query.order_by(course_messages.c.id.desc())
        return await self._database.run(lambda to: [_message(row) for row in to.execute(query)])

    async def of(self, course: str, limit: int = 100) -> list[CourseMessage]:
        """Return the newest messages of a course, whether they are over or not."""
        query = select(course_messages).where(course_messages.c.course == course)
        query = query.order_by(course_messages.c.id.desc()).limit(limit)
        return await self._database.run(lambda to: [_message(row) for row in to.execute(query)])

    async def withdraw(self, course: str, id: int, at: float) -> CourseMessage:
        """End a message at ``at``; one that is over stays as it is. Raises NotFound."""
        this = (course_messages.c.id == min(id, _LARGEST_ID)) & (course_messages.c.course == course)

        def work(to: Connection) -> Row[Any] | None:
            over = update(course_messages).where(this, course_messages.c.ends_at > at)
            to.execute(over.values(ends_at=at))
            return to.execute(select(course_messages).where(this)).first()

        row = await self._database.run(work, write=True)
        if row is None:
            raise NotFound(f"This course has no message {id}.")
        return _message(row)


class HelpTable:
    """The table of requests for help. Every method raises StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, help: Help) -> Help:
        """Insert a request for help; return it with its id."""
        values = help.model_dump(mode="json", exclude={"id"})
        statement = course_help.insert().values(values).returning(course_help)
        row = await self._database.run(lambda to: to.execute(statement).one(), write=True)
        return _help(row)

    async def save(self, help: Help) -> None:
        """Update the request with the id of ``help``."""
        values = help.model_dump(mode="json", exclude={"id"})
        statement = update(course_help).where(course_help.c.id == help.id).values(values)
        await self._database.run(lambda to: to.execute(statement), write=True)

    async def open(self) -> list[Help]:
        """Return the requests that are asked or granted, in all courses, oldest first."""
        query = select(course_help).where(course_help.c.state.in_(_OPEN)).order_by(course_help.c.id)
        return await self._database.run(lambda at: [_help(row) for row in at.execute(query)])

    async def of(self, course: str, limit: int = 100) -> list[Help]:
        """Return the newest requests of a course, in any state."""
        query = select(course_help).where(course_help.c.course == course)
        query = query.order_by(course_help.c.id.desc()).limit(limit)
        return await self._database.run(lambda at: [_help(row) for row in at.execute(query)])


def _presence(row: Row[Any]) -> Presence:
    return Presence.model_validate(row._asdict())


def _message(row: Row[Any]) -> CourseMessage:
    return CourseMessage.model_validate(row._asdict())


def _help(row: Row[Any]) -> Help:
    return Help.model_validate(row._asdict())
