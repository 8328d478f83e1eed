"""``api/v1/sessions``: one's own sessions, and everyone's for those who may see them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from portal.errors import InvalidRequest, NotFound, StoreUnavailable
from portal.launch.kinds import KINDS
from portal.models import Frozen
from portal.models.audit import AuditAction
from portal.models.catalog.environment import Environment
from portal.models.person import Person
from portal.models.scope import JOBS_MANAGE, SESSIONS_READ
from portal.models.session.session import SessionRecord, SessionState
from portal.models.session.startup import Startup
from portal.models.situation import ExtendOffer
from portal.sessions.efficiency import Source
from portal.sessions.item import SessionContext, SessionItem, session_item
from portal.sessions.log import tail
from portal.sessions.startup import startup_of

from ..base.action import Action
from ..base.csv import MEDIA, MOST, CsvEndpoint
from ..base.endpoint import Operation, Query
from ..base.paging import Page, PageQuery, page
from .actions import SESSION_ID

TEXT = "text/plain; charset=utf-8"
_AT_ONCE = 500  # records in memory, each with its log

_Name = Annotated[str | None, Field(max_length=300)]
_Time = Annotated[
    float | None,
    Field(ge=0, le=32503680000, allow_inf_nan=False, description="Unix seconds."),
]


class SessionFilter(Query):
    """Filters and order of sessions; without 'user' and 'all' one's own."""

    user: Annotated[
        _Name, Field(description=f"Sessions of this user; needs {SESSIONS_READ} for other users.")
    ] = None
    all: Annotated[bool, Field(description=f"Sessions of all users; needs {SESSIONS_READ}.")] = (
        False
    )
    state: SessionState | None = None
    ended: bool | None = None
    has_page: Annotated[
        bool | None,
        Field(
            description="True: only sessions whose server has a page; false: only the others, "
            "which are kernels and runs in jobs of their own."
        ),
    ] = None
    environment: _Name = None
    text: Annotated[
        str | None,
        Field(
            max_length=200, description="Text contained in the user, environment, job id or server."
        ),
    ] = None
    since: Annotated[_Time, Field(description="Submitted at this time or later.")] = None
    until: Annotated[_Time, Field(description="Submitted before this time.")] = None
    sort: Literal[
        "submitted_at", "-submitted_at", "started_at", "-started_at", "ended_at", "-ended_at",
        "user", "-user", "environment", "-environment", "state", "-state", "job_id", "-job_id",
    ] = "-submitted_at"  # fmt: skip


class SessionQuery(PageQuery, SessionFilter):
    """Filters, order and page of sessions."""


class DetailQuery(Query):
    """Extent of the answer."""

    log: Annotated[
        bool,
        Field(
            description="Include the end of the log; reading another user's log "
            "adds an audit entry."
        ),
    ] = True


class SessionDetail(SessionItem):
    """Session with the end of its ``log`` as plain text; null if it was not asked for.

    ``startup``: how its start went; ``extend``: whether its time can be extended, while it lives.
    """

    log: str | None = None
    startup: Startup | None = None
    extend: ExtendOffer | None = None


class SessionBase(Action):
    """Base class that finds records this person may see, and makes items of them."""

    async def find(
        self, query: SessionFilter, offset: int, limit: int
    ) -> tuple[list[SessionRecord], int]:
        """Return records and their total; refuse others' sessions to those without the right."""
        user: str | None = query.user or self.person.name
        if (query.all or user != self.person.name) and not self.person.may(SESSIONS_READ):
            await self.refused("Other users' sessions.", SESSIONS_READ)
        if query.all:
            user = query.user
        others = {"user", "all", "has_page"}
        filters = query.model_dump(include=SessionFilter.model_fields.keys() - others)
        pageless = [kind.name for kind in KINDS if not kind.serves]
        return await self.parts.store.sessions.find(
            user=user,
            works=pageless if query.has_page is False else None,
            other_works=pageless if query.has_page else (),
            offset=offset,
            limit=limit,
            **filters,
        )

    async def items(self, records: Sequence[SessionRecord]) -> list[SessionItem]:
        """Return what this person is shown of these records."""
        parts, ids = self.parts, [record.id for record in records]
        try:
            usage, reports, _ = await asyncio.gather(
                parts.store.usage.of_sessions(ids),
                parts.store.reports.of_sessions(ids),
                parts.catalog.load(),
            )
        except StoreUnavailable:
            usage, reports = {}, {}  # the records came from the dashboard's memory
        view = parts.dashboard.view if parts.dashboard else None
        owners = {record.user for record in records}
        living: dict[str, list[SessionRecord]] = {}
        for session in view.sessions.values() if view else ():
            if session.user in owners:
                living.setdefault(session.user, []).append(session)

        def made(record: SessionRecord) -> SessionItem:
            slurms = view.sessions.get(record.job_id) if view else None
            known = view is not None and slurms is not None and slurms.id == record.id
            context = SessionContext(
                viewer=self.person.name,
                base=parts.base,
                now=time.time(),
                environment=self._environment(record),
                usage=usage.get(record.id),
                reports=reports.get(record.id),
                simulated=parts.telemetry.simulated,
                job=view.jobs.get(record.job_id) if view and known else None,
                snapshot=view.snapshot if view else None,
                living=living.get(record.user, ()),
                idle=parts.idle.state_of(record.id),
            )
            return session_item(record, context)

        # A file of all sessions has thousands.
        return await asyncio.to_thread(lambda: [made(record) for record in records])

    def _environment(self, record: SessionRecord) -> Environment | None:
        """Return the environment, if it is still offered to the session's owner."""
        owner = self.person
        if record.user != owner.name:
            owner = Person(name=record.user, groups=record.groups)
        try:
            return self.parts.catalog.get(record.environment, owner)
        except NotFound:
            return None

    async def log_of(self, record: SessionRecord) -> str:
        """Return the end of its log: of a live session from the file, of an ended one as kept."""
        if record.user != self.person.name:
            await self.parts.audit(
                self, AuditAction.READ_LOG, f"session {record.id}", owner=record.user
            )
        if record.log or not record.log_path:
            return record.log
        return await asyncio.to_thread(tail, Path(record.log_path))


class Sessions(SessionBase):
    """List of sessions."""

    path = "sessions"

    @Operation("List sessions.", query=SessionQuery)
    async def on_get(self) -> Page[SessionItem]:
        """Return your own, newest first; everyone's with custom:portal:sessions:read."""
        query = self.query
        records, total = await self.find(query, query.offset, query.limit)
        return page(await self.items(records), query, total)


class OneSession(SessionBase):
    """Session by its id."""

    path = "sessions/{session_id}"
    parameters = {"session_id": SESSION_ID}

    @Operation("Get a session.", query=DetailQuery)
    async def on_get(self, session_id: str) -> SessionDetail:
        """Return your own or, with custom:portal:sessions:read, anyone's; with the log's end."""
        record = await self.session(session_id, SESSIONS_READ)
        (item,) = await self.items([record])
        log = await self.log_of(record) if self.query.log else None
        more = {"log": log, "startup": await self._startup(record), "extend": None}
        admin = self.person.may(JOBS_MANAGE)
        job = self.view.snapshot.jobs.get(record.job_id) if self.parts.dashboard.view else None
        may = admin or record.user == self.person.name
        if may and job is not None and record.state is not SessionState.ENDED:
            snapshot = self.view.snapshot
            offer = await self.parts.situations.offer(record, job, snapshot, anyway=admin)
            more["extend"] = offer.model_dump()
        return SessionDetail.model_validate({**item.model_dump(), **more})

    async def _startup(self, record: SessionRecord) -> dict[str, Any] | None:
        try:
            reports = await self.parts.store.startups.of_sessions([record.id])
        except StoreUnavailable:
            reports = {}
        startup = startup_of(record, reports.get(record.id, {}))
        return startup.model_dump() if startup else None


class SessionLog(SessionBase):
    """End of a session's log."""

    path = "sessions/{session_id}/log"
    parameters = {"session_id": SESSION_ID}

    @Operation("The end of a session's log.", media=TEXT)
    async def on_get(self, session_id: str) -> None:
        """Return plain text without control characters. Reading another's leaves an audit line."""
        record = await self.session(session_id, SESSIONS_READ)
        self.finish(await self.log_of(record))


class SessionLine(Frozen):
    """Session as a line of a file."""

    id: str
    user: str
    server: str
    environment: str
    course: str
    job_id: str
    state: SessionState
    submitted_at: float
    started_at: float | None
    ended_at: float | None
    nodes: tuple[str, ...]
    ending: str
    why: str
    gpus: int | None
    gpu_hours_held: float | None
    gpu_hours_used: float | None
    gpu_busy_share: float | None
    gpu_measured_share: float | None
    gpu_source: Source | None
    gpu_memory_peak: int | None
    memory_asked: int | None
    memory_peak: int | None
    memory_source: Source | None
    time_asked: int | None
    time_limit: int | None
    time_used: float | None

    @classmethod
    def from_item(cls, item: SessionItem) -> SessionLine:
        values: dict[str, Any] = {**item.efficiency.model_dump()}
        for name in cls.model_fields.keys() - values.keys() - {"ending", "why"}:
            values[name] = getattr(item, name)
        ending = item.ending
        return cls(
            **values, ending=ending.code if ending else "", why=ending.words if ending else ""
        )


class SessionsCsv(SessionBase, CsvEndpoint):
    """Sessions as a file."""

    path = "sessions.csv"
    columns = tuple(SessionLine.model_fields)
    times = frozenset({"submitted_at", "started_at", "ended_at"})

    @Operation("The sessions as CSV.", query=SessionFilter, media=MEDIA)
    async def rows(self) -> Sequence[SessionLine]:
        lines: list[SessionLine] = []
        total = 1
        while len(lines) < total:
            records, total = await self.find(self.query, len(lines), _AT_ONCE)
            if total > MOST:
                raise InvalidRequest(
                    f"The list has {total} sessions; a CSV file has at most {MOST}. "
                    "Filter the list."
                )
            if not records:
                break
            lines += [SessionLine.from_item(item) for item in await self.items(records)]
        return lines


ENDPOINTS = (Sessions, SessionsCsv, OneSession, SessionLog)
