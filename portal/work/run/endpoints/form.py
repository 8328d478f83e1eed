"""Form of a new run, on the page: a running session of the user answers, which alone reads files.

The session checks and starts the run as for JupyterLab's dialog (portal_session/runs/lab): it
freezes the file, and asks ``session/runs`` for the job.
"""

from __future__ import annotations

import time
from typing import Annotated, Any

from pydantic import Field

from portal.errors import NotFound
from portal.handlers.base.action import Action
from portal.handlers.base.endpoint import Operation, Query
from portal.handlers.sessions.actions import SESSION_ID
from portal.launch.fields import IN_SPACES
from portal.launch.kinds.closed import closed
from portal.models import Frozen
from portal.models.session.session import SessionRecord
from portal.models.space import Role
from portal.sessions.links import server_url
from portal.spaces.registry import type_of
from portal.work.run.kind import Run as RunKind
from portal.work.run.opener import has_runs
from portal.work.run.tables.runs import RunTable

_MOST = 100  # sessions
_SOURCES = 30
_DIALOG = "lab?portal-run=new"  # kernels/labextension/src/runs.ts
_READ = r"choices|unfinished|source|files"
_SENT = r"points|estimate|start"


class FormSession(Frozen):
    """Running session that can start runs; ``dialog``: the address of the same form in its
    JupyterLab."""

    id: str
    title: str
    server: str
    dialog: str


class FormProject(Frozen):
    """Project that a run can be for, with the names of the ``environments`` that it has, and of the
    ``fields`` of resources that it lets its members choose."""

    name: str
    title: str
    environments: tuple[str, ...]
    fields: tuple[str, ...]


class RunForm(Frozen):
    """Sessions that can start runs, the newest first; ``sources``: the notebooks and scripts of the
    newest runs; ``projects``: those that a run can be for, by title."""

    sessions: tuple[FormSession, ...]
    sources: tuple[str, ...]
    projects: tuple[FormProject, ...]


class FormQuery(Query):
    """File or folder of the session. ``first_cell``: "1" if the first code cell of a notebook
    without a cell of parameters has these."""

    path: Annotated[str, Field(max_length=1_000)] = ""
    first_cell: Annotated[str, Field(pattern="^1?$")] = ""


class FormBody(Frozen):
    """Body that JupyterLab's dialog sends (portal_session/runs/request.py), or the ``options`` of
    an estimate."""

    asked: dict[str, Any]


class FormAnswer(Frozen):
    """Answer of the session."""

    answer: dict[str, Any]


class FormOfUser(Action):
    """Base class: the running sessions of the user that can start runs."""

    async def usable(self) -> list[SessionRecord]:
        """Return them, the newest first. Raises StoreUnavailable."""
        find = self.parts.store.sessions.find
        records, _ = await find(user=self.person.name, ended=False, limit=_MOST)
        return [record for record in records if has_runs(record) and not record.space]

    async def server(self, session_id: str) -> str:
        """Return the server of such a session. Raises NotFound, StoreUnavailable."""
        for record in await self.usable():
            if record.id == session_id:
                return record.server
        raise NotFound("This session does not run any more. Choose another one.")


class NewRunForm(FormOfUser):
    """Form of a new run."""

    path = "run-form"

    @Operation("List what can start a run: your running sessions, and the files of earlier runs.")
    async def on_get(self) -> RunForm:
        """Without a running session, there is none to ask for your files."""
        base = self.parts.hub_host + self.parts.base
        return RunForm(
            sessions=tuple(
                FormSession(
                    id=record.id,
                    title=record.environment_title or record.environment,
                    server=record.server,
                    dialog=f"{server_url(record, base)}{_DIALOG}",
                )
                for record in await self.usable()
            ),
            sources=tuple(
                await self.parts.store.table(RunTable).sources(self.person.name, _SOURCES)
            ),
            projects=await self._projects(),
        )

    async def _projects(self) -> tuple[FormProject, ...]:
        """Return the projects that the user can start runs for. Raises StoreUnavailable."""
        memberships, now = self.parts.memberships.of_type("project"), time.time()
        mine = await memberships.mine(self.person.name)
        spaces = [
            each.stored.space
            for each in mine.values()
            if each.role is not Role.READER and not closed(RunKind, each.stored, each.role, now)
        ]
        if spaces:
            await self.parts.catalog.load()
        return tuple(
            FormProject(
                name=space.name,
                title=space.title,
                environments=tuple(filter(space.has, self.parts.catalog.environments)),
                fields=tuple(sorted(IN_SPACES | type_of(space).more_choices)),
            )
            for space in sorted(spaces, key=lambda space: space.title.casefold())
        )


class FormPart(FormOfUser):
    """Part of the form that the session reads."""

    path = "run-form/{session_id}/{part}"
    parameters = {"session_id": SESSION_ID, "part": _READ}

    @Operation("Ask one of your running sessions for a part of the form.", query=FormQuery)
    async def on_get(self, session_id: str, part: str) -> FormAnswer:
        """Return the choices, the runs to start after (unfinished), the name and the parameters of
        a file (source), or the content of a folder (files)."""
        server, query = await self.server(session_id), self.query.model_dump()
        hub = self.parts.hub
        return FormAnswer(answer=await hub.ask_run_form(self.person.name, server, part, query))


class FormRequest(FormOfUser):
    """Request for a run, of which the session counts the points, or which it starts."""

    path = "run-form/{session_id}/ask/{part}"
    parameters = {"session_id": SESSION_ID, "part": _SENT}

    @Operation("Have one of your running sessions check or start a run.", body=FormBody)
    async def on_post(self, session_id: str, part: str) -> FormAnswer:
        """Return the number of points, the estimated start, or the run that has started."""
        server, hub = await self.server(session_id), self.parts.hub
        asked = self.body.asked
        answer = await hub.ask_run_form(self.person.name, server, part, {}, asked)
        if part == "start":
            self.done("")  # the dashboard shows its job at once
        return FormAnswer(answer=answer)


ENDPOINTS = (NewRunForm, FormPart, FormRequest)
