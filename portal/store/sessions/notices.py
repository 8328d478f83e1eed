"""Preferences for mail, and the notices that were sent already. Written by the service only."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Column, Table, select

from ..engine.columns import COUNT, NAME, TEXT, TIME, metadata
from ..engine.database import Database
from ..engine.listing import instant

wishes = Table(
    "notice_wishes",
    metadata,
    Column("user", NAME, primary_key=True),
    Column("mail", COUNT, nullable=False),  # 1: yes
    Column("at", TIME, nullable=False),
)
notices = Table(
    "notices",
    metadata,
    Column("session_id", NAME, primary_key=True),
    Column("kind", NAME, primary_key=True),
    Column("at", TIME, nullable=False),
    Column("outcome", TEXT, nullable=False),  # "" when it was sent, else the sentence why not
)


class NoticeTable:
    """The tables of notices. Every method raises StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def wish(self, user: str, mail: bool, at: float) -> None:
        """Save whether this person wants mail."""
        values = {"user": user, "mail": int(mail), "at": instant(at, "at")}
        statement = self._database.upsert(wishes)
        await self._database.run(lambda to: to.execute(statement, values), write=True)

    async def wishes(self, users: Collection[str]) -> dict[str, bool]:
        """Return whether each of ``users`` wants mail; those who never said are left out."""
        query = select(wishes).where(wishes.c.user.in_(list(users)))
        rows = await self._database.run(lambda at: list(at.execute(query))) if users else []
        return {row.user: bool(row.mail) for row in rows}

    async def claim(self, session_id: str, kind: str, at: float) -> bool:
        """Claim a notice that is still to be sent; return True to one caller only, also after a
        restart of the service."""
        values = {"session_id": session_id, "kind": kind, "at": instant(at, "at"), "outcome": ""}
        statement = self._database.insert(notices).values(values).on_conflict_do_nothing()
        return await self._database.run(lambda to: to.execute(statement).rowcount == 1, write=True)

    async def unsent(self, session_ids: Collection[str]) -> set[tuple[str, str]]:
        """Return session and kind of these sessions' claimed notices that could not be sent."""
        query = select(notices.c.session_id, notices.c.kind).where(
            notices.c.session_id.in_(list(session_ids)), notices.c.outcome != ""
        )
        if not session_ids:
            return set()
        rows = await self._database.run(lambda at: list(at.execute(query)))
        return {(row.session_id, row.kind) for row in rows}

    async def outcome(self, session_id: str, kind: str, reason: str) -> None:
        """Save why a claimed notice could not be sent, in a sentence; "" if it was."""
        this = (notices.c.session_id == session_id) & (notices.c.kind == kind)
        statement = notices.update().where(this).values(outcome=reason)
        await self._database.run(lambda to: to.execute(statement), write=True)
