"""The audit log: who did what to whom. Rows are only ever added; triggers in the database refuse
everything else. Written by the service, and by `portal backup`."""

from __future__ import annotations

from sqlalchemy import DDL, Index, event, select

from portal.models.audit import ACTION_WORDS, AuditEntry, Outcome

from ..engine.columns import NAME, TEXT, TIME, filled, numbered
from ..engine.listing import folded, narrowed, order_by
from ..engine.rows import ModelTable

audit = numbered(
    "audit",
    *filled(TIME, "at"),
    *filled(NAME, "actor", "action", "target", "owner", "outcome", "address"),
    *filled(TEXT, "detail", "search"),
    Index(None, "at"),
    Index(None, "actor", "at"),
    Index(None, "action", "at"),
    Index(None, "owner", "at"),
    Index(None, "target"),
)

_REFUSED = "the audit log is only ever added to"
_ABORT = f"ON audit %s BEGIN SELECT RAISE(ABORT, '{_REFUSED}'); END"
_TRIGGERS = {
    "sqlite": [
        "CREATE TRIGGER audit_no_update BEFORE UPDATE " + _ABORT % "",
        "CREATE TRIGGER audit_no_delete BEFORE DELETE " + _ABORT % "",
        # REPLACE is a DELETE that fires no trigger.
        "CREATE TRIGGER audit_no_replace BEFORE INSERT "  # noqa: S608 - constants
        + _ABORT % "WHEN NEW.id IN (SELECT id FROM audit)",
    ],
    "postgresql": [
        "CREATE FUNCTION audit_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{_REFUSED}'; END $$",
        "CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit "
        "FOR EACH STATEMENT EXECUTE FUNCTION audit_append_only()",
    ],
}
for _dialect, _statements in _TRIGGERS.items():
    for _statement in _statements:
        event.listen(audit, "after_create", DDL(_statement).execute_if(dialect=_dialect))

_FIELDS = tuple(AuditEntry.model_fields)
_SORTS = {name: audit.c[name] for name in ("at", "actor", "action", "target", "owner", "outcome")}


class AuditTable(ModelTable[AuditEntry]):
    """The table of the audit log. Every method raises StoreUnavailable."""

    table, model = audit, AuditEntry

    async def add_entry(self, entry: AuditEntry) -> None:
        """Add an entry; the database assigns its ``id``."""
        values = entry.model_dump(exclude={"id"})
        values["search"] = folded(
            entry.actor,
            entry.action,
            ACTION_WORDS.get(entry.action, ""),
            entry.target,
            entry.owner,
            entry.detail,
        )
        await self._write(audit.insert().values(values))

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
        wanted["outcome"] = None if outcome is None else Outcome(outcome).value
        query = narrowed(query, audit, wanted, "at", since, until, text)
        return await self._page(query, order_by(audit, sort, _SORTS), offset, limit)
