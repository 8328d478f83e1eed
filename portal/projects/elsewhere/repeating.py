"""``api/v1/projects/{project}/file``: what a project's file says, and its runs once more.

A repetition is started by a running session of the user, which alone reads files: it freezes the
script in the folder as for any other run, with the parameters of the file.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Sequence
from typing import Any, Literal

from portal.errors import NotFound
from portal.handlers.base.endpoint import Operation
from portal.models.session.run import PointState
from portal.models.session.session import SessionRecord
from portal.sessions.links import server_url
from portal.work.run.opener import has_runs
from portal.work.run.tables.conditions import RunConditionTable
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.runs import RunTable

from ..access import ProjectAction
from ..audit import ProjectAudit
from ..models import WORKERS
from .bodies import (
    AskedRepetition,
    FileRunItem,
    FileSession,
    PreviewQuery,
    ProjectFileView,
    RepetitionItem,
    RepetitionPreview,
    StartedFileRun,
)
from .contents import best_values
from .differences import Difference, after_end, before_start, unknown_of
from .document import Contents, FileRun
from .tables import ProjectContentTable, ProjectRepetitionTable, Repetition, StoredContents

_MOST = 100  # sessions
_RUN = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,59}"


class _OfFile(ProjectAction):
    """Base class: the project's file and the asker's sessions in the project."""

    changers = WORKERS

    async def file(self) -> StoredContents:
        """Return what the project's file says. Raises StoreUnavailable."""
        return await self.parts.store.table(ProjectContentTable).of_project(self.stored.name)

    async def sessions(self) -> list[SessionRecord]:
        """Return the asker's running sessions that can start runs, the newest first."""
        find = self.parts.store.sessions.find
        records, _ = await find(user=self.person.name, ended=False, limit=_MOST)
        return [
            record for record in records if record.space == self.stored.name and has_runs(record)
        ]

    async def of_project(self, id_: str) -> SessionRecord:
        """Return such a session. Raises NotFound."""
        for record in await self.sessions():
            if record.id == id_:
                return record
        raise NotFound("This session of the project does not run any more. Choose another one.")

    async def differences(
        self, contents: Contents, run: FileRun, session: SessionRecord | None
    ) -> tuple[Difference, ...]:
        """Return what will differ; the script's digest is known to a ``session`` only. Raises
        InvalidRequest if that cannot read the script, HubUnavailable."""
        catalog, script = self.parts.catalog, None
        await catalog.load()
        if session is not None:
            ask = self.parts.hub.ask_run_form
            query = {"path": run.source, "in_project": "1"}
            told = await ask(self.person.name, session.server, "source", query)
            script = f"sha256:{told.get('sha256') or ''}" if told.get("sha256") else ""
        return tuple(before_start(contents, run, catalog.environments, script))


class ProjectFileSection(_OfFile):
    """File of a project on its page."""

    path = "projects/{project}/file"

    @Operation("Show what a project's file says, and how its runs were repeated.")
    async def on_get(self, project: str) -> ProjectFileView:
        """Return it to the members of the project."""
        stored = await self.file()
        contents = stored.contents
        repetitions = await self._repetitions(contents)
        items = [
            FileRunItem(
                name=run.name,
                source=run.source,
                environment=run.environment,
                points=len(run.points),
                metrics={
                    name: _range(best.lowest, best.highest) for name, best in run.metrics.items()
                },
                unknown=tuple(unknown_of(run, contents)),
                differences=await self.differences(contents, run, None),
                repetitions=tuple(repetitions.get(run.name, ())),
            )
            for run in contents.runs
        ]
        brought = stored.brought_at is not None
        base = self.parts.hub_host + self.parts.base
        return ProjectFileView(
            origin=stored.origin,
            left_out=stored.left_out,
            files="" if not stored.files else "brought" if brought else "waiting",
            brought=stored.brought,
            environments=contents.environments,
            starters=contents.starters,
            runs=tuple(items),
            sessions=tuple(
                FileSession(
                    id=record.id,
                    title=record.environment_title or record.environment,
                    url=server_url(record, base),
                )
                for record in await self.sessions()
            ),
            may_repeat=self.role in WORKERS,
        )

    async def _repetitions(self, contents: Contents) -> dict[str, list[RepetitionItem]]:
        """Return the repetitions of each run, the newest first."""
        store = self.parts.store
        rows = await store.table(ProjectRepetitionTable).of_project(self.stored.name)
        conditions = await store.table(RunConditionTable).of_runs(
            [(row.user, row.run) for row in rows]
        )
        found: dict[str, list[RepetitionItem]] = {}
        for row in rows:
            entry = contents.run(row.entry)
            run = await store.table(RunTable).get(row.user, row.run)
            if run is None or entry is None:  # its user has deleted it
                continue
            state: Literal["running", "identical", "different"] = "running"
            differences: Sequence[Difference] = ()
            if run.ended_at is not None:
                points = await store.table(RunPointTable).keys(row.user, row.run)
                known = conditions.get((row.user, row.run))
                succeeded = [
                    point.parameters for point in points if point.state is PointState.SUCCEEDED
                ]
                differences = after_end(
                    contents, entry, run.environment, known, best_values(points), succeeded
                )
                state = "different" if differences else "identical"
            found.setdefault(row.entry, []).append(
                RepetitionItem(
                    user=row.user,
                    run=row.run,
                    name=run.name,
                    at=row.at,
                    state=state,
                    differences=tuple(differences),
                )
            )
        return found


class ProjectFileRun(_OfFile):
    """Run in a project's file, once more."""

    path = "projects/{project}/file/runs/{run}"
    parameters = {**ProjectAction.parameters, "run": _RUN}
    roles = WORKERS
    admins = False

    @Operation("Preview a repetition of a run in a project's file.", query=PreviewQuery)
    async def on_get(self, project: str, run: str) -> RepetitionPreview:
        """Return what will differ. A running session of the project knows the script, too."""
        contents, entry = await self._entry(run)
        session = await self.of_project(self.query.session) if self.query.session else None
        return RepetitionPreview(differences=await self.differences(contents, entry, session))

    @Operation(
        "Repeat a run in a project's file.", body=AskedRepetition, status=202, errors=(409, 429)
    )
    async def on_post(self, project: str, run: str) -> StartedFileRun:
        """Have a running session of yours start the run: the script in the project's folder with
        the parameters, environment and resources in the file. The answer comes once Slurm has the
        job."""
        asked: AskedRepetition = self.body
        async with self.audited(ProjectAudit.REPEAT_PROJECT_RUN, f"project {project}") as line:
            contents, entry = await self._entry(run)
            session = await self.of_project(asked.session)
            differences = await self.differences(contents, entry, session)
            id_ = str(asked.id or uuid.uuid4())
            # Before the start: what is repeated is not exported as a run of its own. A row of a run
            # that was refused is of no run, and is not shown.
            await self.parts.store.table(ProjectRepetitionTable).add_row(
                Repetition(
                    project=project,
                    user=self.person.name,
                    run=id_,
                    entry=entry.name,
                    at=time.time(),
                )
            )
            body = request_of(entry, id_)
            ask = self.parts.hub.ask_run_form
            answer = await ask(self.person.name, session.server, "start", {}, body)
            name = str(answer.get("name") or entry.name)
            line.detail = f"Run {name} of {entry.environment}: {len(entry.points)} points."
        self.done("")
        return StartedFileRun(id=str(answer.get("id") or id_), name=name, differences=differences)

    async def _entry(self, run: str) -> tuple[Contents, FileRun]:
        """Return the file, and its run of this name. Raises NotFound."""
        contents = (await self.file()).contents
        entry = contents.run(run)
        if entry is None:
            raise NotFound(f"The file of this project has no run '{run}'.")
        return contents, entry


def request_of(run: FileRun, id_: str) -> dict[str, Any]:
    """Return what a session is asked for (portal_session/runs/request.py)."""
    return {
        "id": id_,
        "source": run.source,  # below the project's folder
        "in_project": True,
        "name": run.name,
        "environment": run.environment,
        "rows": [dict(point) for point in run.points],
        "resources": json.loads(run.resources.model_dump_json(exclude_defaults=True)),
    }


def _range(lowest: float, highest: float) -> str:
    return f"{lowest:g}" if lowest == highest else f"{lowest:g} to {highest:g}"


ENDPOINTS = (ProjectFileRun, ProjectFileSection)
