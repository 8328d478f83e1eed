"""Announcements to all. Written by the service only."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, delete, select, update

from portal.models.announcement import Announcement, AnnouncementDraft

from ..engine.columns import LARGEST_ID, NAME, TEXT, TIME, filled, numbered
from ..engine.listing import instant
from ..engine.rows import NumberedTable

announcements = numbered(
    "announcements",
    *filled(TEXT, "text"),
    *filled(NAME, "level", "author"),
    *filled(TIME, "starts_at", "created_at"),
    *filled(TIME, "ends_at", index=True),
)


class AnnouncementTable(NumberedTable[Announcement]):
    """The table of announcements. Every method raises StoreUnavailable."""

    table, model, noun = announcements, Announcement, "announcement"

    async def add_announcement(
        self, draft: AnnouncementDraft, author: str, at: float
    ) -> Announcement:
        """Insert ``draft``; return it with its id."""
        values = draft.model_dump() | {"author": author, "created_at": instant(at, "at")}
        return await self._insert(values)

    async def all(self, offset: int = 0, limit: int = 50) -> tuple[list[Announcement], int]:
        """Return one page, newest first, and the total number."""
        return await self._newest(select(announcements), offset, limit)

    async def active(self, at: float) -> list[Announcement]:
        """Return the announcements that are visible at ``at``, newest first."""
        now = instant(at, "at")
        query = (
            select(announcements)
            .where(announcements.c.starts_at <= now, announcements.c.ends_at > now)
            .order_by(announcements.c.id.desc())
        )
        return await self._models(query)

    async def withdraw(self, id: int, at: float) -> Announcement | None:
        """End an announcement at ``at``, or delete one that has not begun; one that is over stays
        as it is. None if there is none of this id."""
        now = instant(at, "at")
        if not 0 < id <= LARGEST_ID:
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
        return None if row is None else self._made(row)
