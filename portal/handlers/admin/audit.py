"""``api/v1/audit``: who did what, for those who may read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from portal.models.audit import AuditEntry, Outcome
from portal.models.scope import AUDIT_READ

from ..base.csv import MEDIA, MOST, CsvEndpoint
from ..base.endpoint import Endpoint, Operation, Query
from ..base.paging import Page, PageQuery, page

_Word = Annotated[str | None, Field(max_length=300)]
_Time = Annotated[
    float | None,
    Field(ge=0, le=32503680000, allow_inf_nan=False, description="Unix seconds."),
]


class AuditFilter(Query):
    """Filters and order of the audit log."""

    actor: _Word = None
    action: _Word = None
    target: _Word = None
    owner: _Word = None
    outcome: Outcome | None = None
    text: Annotated[
        str | None, Field(max_length=200, description="Text contained in the entry.")
    ] = None
    since: _Time = None
    until: _Time = None
    sort: Literal[
        "at", "-at", "actor", "-actor", "action", "-action", "target", "-target",
        "owner", "-owner", "outcome", "-outcome",
    ] = "-at"  # fmt: skip

    def words(self) -> dict[str, Any]:
        """Return the filters as keyword arguments of the table's ``find``."""
        return {name: getattr(self, name) for name in AuditFilter.model_fields}


class AuditQuery(PageQuery, AuditFilter):
    """Filters, order and page of the audit log."""


class AuditLines(Endpoint):
    """Audit log."""

    path = "audit"

    @Operation("List entries of the audit log.", query=AuditQuery, scope=AUDIT_READ)
    async def on_get(self) -> Page[AuditEntry]:
        """Return the entries, newest first by default.

        Entries that could not be written while the database was down are in the service's log
        only.
        """
        query = self.query
        items, total = await self.parts.store.audit.find(
            **query.words(), offset=query.offset, limit=query.limit
        )
        return page(items, query, total)


class AuditCsv(CsvEndpoint):
    """Audit log as a file."""

    path = "audit.csv"
    columns = tuple(AuditEntry.model_fields)
    times = frozenset({"at"})

    @Operation("The audit log as CSV.", query=AuditFilter, scope=AUDIT_READ, media=MEDIA)
    async def rows(self) -> Sequence[AuditEntry]:
        # One more than a file may have, to notice that there are too many.
        items, _ = await self.parts.store.audit.find(**self.query.words(), limit=MOST + 1)
        return items


ENDPOINTS = (AuditLines, AuditCsv)
