"""Preferences for mail, and the notices that were sent already. Written by the service only."""

from __future__ import annotations

from collections.abc import Collection

from ..engine.columns import COUNT, NAME, TEXT, TIME, filled, keyed, keys
from ..engine.listing import instant
from ..engine.rows import StoreTable

wishes = keyed(
    "notice_wishes",
    *keys(NAME, "user"),
    *filled(COUNT, "mail"),  # 1: yes
    *filled(TIME, "at"),
)
notices = keyed(
    "notices",
    *keys(NAME, "session_id", "kind"),
    *filled(TIME, "at"),
    *filled(TEXT, "outcome"),  # "" when it was sent, else the sentence why not
)


class NoticeTable(StoreTable):
    """The tables of notices. Every method raises StoreUnavailable."""

    async def wish(self, user: str, mail: bool, at: float) -> None:
        """Save whether this person wants mail."""
        values = {"user": user, "mail": int(mail), "at": instant(at, "at")}
        await self._write(self._database.upsert(wishes), values)

    async def wishes(self, users: Collection[str]) -> dict[str, bool]:
        """Return whether each of ``users`` wants mail; those who never said are left out."""
        rows = await self._rows_with(wishes.c.user, users)
        return {row.user: bool(row.mail) for row in rows}

    async def claim(self, session_id: str, kind: str, at: float) -> bool:
        """Claim a notice that is still to be sent; return True to one caller only, also after a
        restart of the service."""
        values = {"session_id": session_id, "kind": kind, "at": instant(at, "at"), "outcome": ""}
        statement = self._database.insert(notices).values(values).on_conflict_do_nothing()
        return await self._write(statement) == 1

    async def unsent(self, session_ids: Collection[str]) -> set[tuple[str, str]]:
        """Return session and kind of these sessions' claimed notices that could not be sent."""
        rows = await self._rows_with(notices.c.session_id, session_ids)
        return {(row.session_id, row.kind) for row in rows if row.outcome}

    async def outcome(self, session_id: str, kind: str, reason: str) -> None:
        """Save why a claimed notice could not be sent, in a sentence; "" if it was."""
        this = (notices.c.session_id == session_id) & (notices.c.kind == kind)
        statement = notices.update().where(this).values(outcome=reason)
        await self._write(statement)
