"""Announcements to all. Written by the service only."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Connection, Index, Row, Table, delete, select, update

from portal.models.announcement import Announcement, AnnouncementDraft

from ..engine.columns import NAME, ROW, TEXT, TIME, metadata
from ..engine.database import Database
from ..engine.listing import instant, one_page

announcements = Table(
    "announcements",
    metadata,
    Column("id", ROW, primary_key=True),
    Column("text", TEXT, nullable=False),
    Column("level", NAME, nullable=False),
    Column("starts_at", TIME, nullable=False),
    Column("ends_at", TIME, nullable=False),
    Column("author", NAME, nullable=False),
    Column("created_at", TIME, nullable=False),
    Index(None, "ends_at"),
    sqlite_autoincrement=True,  # a deleted row's id is not reused
)
_LARGEST_ID = 2**63 - 1


class AnnouncementTable:
    """The table of announcements. Every method raises StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, draft: AnnouncementDraft, author: str, at: float) -> Announcement:
        """Insert ``draft``; return it with its id."""
        values = draft.model_dump() | {"author": author, "created_at": instant(at, "at")}
        statement = announcements.insert().values(values).returning(announcements)
        row = await self._database.run(lambda to: to.execute(statement).one(), write=True)
        return _announcement(row)

    async def all(self, offset: int = 0, limit: int = 50) -> tuple[list[Announcement], int]:
        """Return one page, newest first, and the total number."""
        order = [announcements.c.id.desc()]
        return await self._database.run(
            lambda at: one_page(at, select(announcements), order, offset, limit, _announcement)
        )

    async def active(self, at: float) -> list[Announcement]:
        """Return the announcements that are visible at ``at``, newest first."""
        now = instant(at, "at")
        query = (
            select(announcements)
            .where(announcements.c.starts_at <= now, announcements.c.ends_at > now)
            .order_by(announcements.c.id.desc())
        )
        rows = await self._database.run(lambda to: list(to.execute(query)))
        return [_announcement(row) for row in rows]

    async def withdraw(self, id: int, at: float) -> Announcement | None:
        """End an announcement at ``at``, or delete one that has not begun; one that is over stays
        as it is. None if there is none of this id."""
        now = instant(at, "at")
        if not 0 < id <= _LARGEST_ID:
            return None
        this = announcements.c.id == id

        def change(to: Connection) -> Row[Any] | None:
            row = to.execute(select(announcements).where(this)).first()
            if row is None or row.ends_at <= now:
                return row
            if row.starts_at >= now:
                to.execute(delete(announcements).where(this))
                return row
            ended = update(announcements).where(this).values(ends_at=now)
            return to.execute(ended.returning(announcements)).first()

        row = await self._database.run(change, write=True)
        return None if row is None else _announcement(row)


def _announcement(row: Row[Any]) -> Announcement:
    return Announcement.model_validate(row._asdict())
