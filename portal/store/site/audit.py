"""The audit log: who did what to whom. Rows are only ever added; triggers in the database refuse
everything else (migrations). Written by the service only."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Index, Row, Table, select

from portal.models.audit import AuditEntry, Outcome

from ..engine.columns import NAME, ROW, TEXT, TIME, metadata
from ..engine.database import Database
from ..engine.listing import containing, folded, moment, one_page, order_by

audit = Table(
    "audit",
    metadata,
    Column("id", ROW, primary_key=True),
    Column("at", TIME, nullable=False),
    Column("actor", NAME, nullable=False),
    Column("action", NAME, nullable=False),
    Column("target", NAME, nullable=False),
    Column("owner", NAME, nullable=False),
    Column("outcome", NAME, nullable=False),
    Column("detail", TEXT, nullable=False),
    Column("address", NAME, nullable=False),
    Column("search", TEXT, nullable=False),
    Index(None, "at"),
    Index(None, "actor", "at"),
    Index(None, "action", "at"),
    Index(None, "owner", "at"),
    Index(None, "target"),
    sqlite_autoincrement=True,  # ids are not reused, even if somebody deleted the last ones
)

_FIELDS = tuple(AuditEntry.model_fields)
_SORTS = {name: audit.c[name] for name in ("at", "actor", "action", "target", "owner", "outcome")}


class AuditTable:
    """The table of the audit log. Every method raises StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, entry: AuditEntry) -> None:
        """Add an entry; the database assigns its ``id``."""
        values = entry.model_dump(exclude={"id"})
        values["search"] = folded(
            entry.actor, entry.action, entry.target, entry.owner, entry.detail
        )
        statement = audit.insert().values(values)
        await self._database.run(lambda to: to.execute(statement), write=True)

    async def find(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        target: str | None = None,
        owner: str | None = None,
        outcome: Outcome | None = None,
        text: str | None = None,
        since: float | None = None,
        until: float | None = None,
        sort: str = "-at",
        offset: int = 0,
        limit: int = 50,
    ) -> tuple[list[AuditEntry], int]:
        """Return one page, and the total number. ``text`` is searched for in actor, action,
        target, owner and detail; ``since`` <= at < ``until``. Raises InvalidRequest too."""
        query = select(*(audit.c[name] for name in _FIELDS))
        wanted = {"actor": actor, "action": action, "target": target, "owner": owner}
        for name, value in wanted.items():
            if value is not None:
                query = query.where(audit.c[name] == value)
        if outcome is not None:
            query = query.where(audit.c.outcome == Outcome(outcome).value)
        if text:
            query = query.where(containing(audit.c.search, text))
        if since is not None:
            query = query.where(audit.c.at >= moment(since, "since"))
        if until is not None:
            query = query.where(audit.c.at < moment(until, "until"))
        order = order_by(audit, sort, _SORTS)
        return await self._database.run(
            lambda at: one_page(at, query, order, offset, limit, _entry)
        )


def _entry(row: Row[Any]) -> AuditEntry:
    return AuditEntry.model_validate(row._asdict())
