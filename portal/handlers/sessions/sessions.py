"""``api/v1/sessions``: one's own sessions, and everyone's for those who may see them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from portal.errors import InvalidRequest, NotFound, StoreUnavailable
from portal.models import Frozen
from portal.models.catalog.environment import Environment
from portal.models.person import Person
from portal.models.scope import JOBS_MANAGE, SESSIONS_READ
from portal.models.session.session import SessionRecord, SessionState
from portal.models.session.startup import Startup
from portal.models.situation import ExtendOffer
from portal.sessions.efficiency import Source
from portal.sessions.item import SessionItem, Surroundings, session_item
from portal.sessions.log import tail
from portal.sessions.startup import startup_of

from ..base.action import Action
from ..base.csv import MEDIA, MOST, CsvEndpoint
from ..base.endpoint import Operation, Query
from ..base.paging import Page, PageQuery, offset_of, page
from .actions import SESSION_ID

TEXT = "text/plain; charset=utf-8"
_AT_ONCE = 500  # records in memory, each with its log

_Name = Annotated[str | None, Field(max_length=300)]
_Time = Annotated[
    float | None,
    Field(ge=0, le=32503680000, allow_inf_nan=False, description="Unix seconds."),
]


class SessionFilter(Query):
    """Which sessions, and in which order; without 'user' and 'all' one's own."""

    user: Annotated[_Name, Field(description=f"Another's, with {SESSIONS_READ}.")] = None
    all: Annotated[bool, Field(description=f"Everyone's, with {SESSIONS_READ}.")] = False
    state: SessionState | None = None
    ended: bool | None = None
    environment: _Name = None
    text: Annotated[
        str | None,
        Field(max_length=200, description="Is in the user, environment, job id or server."),
    ] = None
    since: Annotated[_Time, Field(description="Submitted then or later.")] = None
    until: Annotated[_Time, Field(description="Submitted before.")] = None
    sort: Literal[
        "submitted_at", "-submitted_at", "started_at", "-started_at", "ended_at", "-ended_at",
        "user", "-user", "environment", "-environment", "state", "-state", "job_id", "-job_id",
    ] = "-submitted_at"  # fmt: skip


class SessionQuery(PageQuery, SessionFilter):
    """The same, a page of it."""


class DetailQuery(Query):
    """How much of it."""

    log: Annotated[
        bool,
        Field(description="With the end of its log; who reads another's leaves an audit line."),
    ] = True


class SessionDetail(SessionItem):
    """One session. ``log`` is the end of its log as plain text; null where it was not asked for.
    ``startup``: how its start went; ``extend``: whether its time can be extended, while it lives.
    """

    log: str | None = None
    startup: Startup | None = None
    extend: ExtendOffer | None = None


class SessionBase(Action):
    """What all of them do: find records that this person may see, and make items of them."""

    async def find(
        self, query: SessionFilter, offset: int, limit: int
    ) -> tuple[list[SessionRecord], int]:
        """Records and their total. Whoever asks for others' without the right is refused."""
        user: str | None = query.user or self.person.name
        if (query.all or user != self.person.name) and not self.person.may(SESSIONS_READ):
            await self.refused("Other people's sessions.", SESSIONS_READ)
        if query.all:
            user = query.user
        return await self.parts.store.sessions.find(
            user=user,
            state=query.state,
            ended=query.ended,
            environment=query.environment,
            text=query.text,
            since=query.since,
            until=query.until,
            sort=query.sort,
            offset=offset,
            limit=limit,
        )

    async def items(self, records: Sequence[SessionRecord]) -> list[SessionItem]:
        """What this person is shown of these."""
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
        for one in view.sessions.values() if view else ():
            if one.user in owners:
                living.setdefault(one.user, []).append(one)

        def made(record: SessionRecord) -> SessionItem:
            slurms = view.sessions.get(record.job_id) if view else None
            known = view is not None and slurms is not None and slurms.id == record.id
            around = Surroundings(
                viewer=self.person.name,
                base=parts.prefix.removesuffix("services/portal/"),
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
            return session_item(record, around)

        # A file of all sessions has thousands.
        return await asyncio.to_thread(lambda: [made(record) for record in records])

    def _environment(self, record: SessionRecord) -> Environment | None:
        """The environment, where it is still offered to the session's owner."""
        owner = self.person
        if record.user != owner.name:
            owner = Person(name=record.user, groups=record.groups)
        try:
            return self.parts.catalog.get(record.environment, owner)
        except NotFound:
            return None

    async def log_of(self, record: SessionRecord) -> str:
        """The end of its log: of a living session the file's, of an ended one as it was kept."""
        if record.user != self.person.name:
            await self.parts.audit(self, "read-log", f"session {record.id}", owner=record.user)
        if record.log or not record.log_path:
            return record.log
        return await asyncio.to_thread(tail, Path(record.log_path))


class Sessions(SessionBase):
    """All of them."""

    path = "sessions"

    @Operation("The sessions.", query=SessionQuery)
    async def on_get(self) -> Page[SessionItem]:
        """One's own, newest first; everyone's with custom:portal:sessions:read."""
        query = self.query
        records, total = await self.find(query, offset_of(query.after), query.limit)
        return page(await self.items(records), query, total)


class OneSession(SessionBase):
    """One of them."""

    path = "sessions/{session_id}"
    parameters = {"session_id": SESSION_ID}

    @Operation("One session.", query=DetailQuery)
    async def on_get(self, session_id: str) -> SessionDetail:
        """With the end of its log. One's own, or with custom:portal:sessions:read anyone's."""
        record = await self.session(session_id, SESSIONS_READ)
        (item,) = await self.items([record])
        log = await self.log_of(record) if self.query.log else None
        more = {"log": log, "startup": await self._startup(record), "extend": None}
        admin = self.person.may(JOBS_MANAGE)
        job = self.view.snapshot.jobs.get(record.job_id) if self.parts.dashboard.view else None
        may = admin or record.user == self.person.name
        if may and job is not None and record.state is not SessionState.ENDED:
            snapshot = self.view.snapshot
            found = await self.parts.situations.offer(record, job, snapshot, anyway=admin)
            more["extend"] = found.model_dump()
        return SessionDetail.model_validate({**item.model_dump(), **more})

    async def _startup(self, record: SessionRecord) -> dict[str, Any] | None:
        try:
            told = await self.parts.store.startups.of_sessions([record.id])
        except StoreUnavailable:
            told = {}
        found = startup_of(record, told.get(record.id, {}))
        return found.model_dump() if found else None


class SessionLog(SessionBase):
    """The end of its log."""

    path = "sessions/{session_id}/log"
    parameters = {"session_id": SESSION_ID}

    @Operation("The end of a session's log.", media=TEXT)
    async def on_get(self, session_id: str) -> None:
        """Plain text, without control characters. Reading another's leaves an audit line."""
        record = await self.session(session_id, SESSIONS_READ)
        self.finish(await self.log_of(record))


class SessionLine(Frozen):
    """One session as a line of a file."""

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
    memory_asked: int | None
    memory_peak: int | None
    memory_source: Source | None
    time_asked: int | None
    time_limit: int | None
    time_used: float | None

    @classmethod
    def of(cls, item: SessionItem) -> SessionLine:
        values: dict[str, Any] = {**item.efficiency.model_dump()}
        for name in cls.model_fields.keys() - values.keys() - {"ending", "why"}:
            values[name] = getattr(item, name)
        ending = item.ending
        return cls(
            **values, ending=ending.code if ending else "", why=ending.words if ending else ""
        )


class SessionsCsv(SessionBase, CsvEndpoint):
    """All of them, as a file."""

    path = "sessions.csv"
    columns = tuple(SessionLine.model_fields)
    times = frozenset({"submitted_at", "started_at", "ended_at"})

    @Operation("The sessions as CSV.", query=SessionFilter, media=MEDIA)
    async def rows(self) -> Sequence[SessionLine]:
        found: list[SessionLine] = []
        total = 1
        while len(found) < total:
            records, total = await self.find(self.query, len(found), _AT_ONCE)
            if total > MOST:
                raise InvalidRequest(
                    f"These are {total} sessions, and a file has {MOST} at most: filter the list."
                )
            if not records:
                break
            found += [SessionLine.of(item) for item in await self.items(records)]
        return found


ENDPOINTS = (Sessions, SessionsCsv, OneSession, SessionLog)
