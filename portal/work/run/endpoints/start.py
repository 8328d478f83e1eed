"""Start of a run, for the session that asks: its server has frozen the source and the points
(portal_session/runs), and the Hub launches the array job."""

from __future__ import annotations

import time
from typing import Any, Self

from pydantic import ModelWrapValidatorHandler, ValidationError, model_validator

from portal.catalog.versions.pins import pin_of
from portal.errors import InvalidRequest, NotAllowed
from portal.handlers.base.endpoint import Operation
from portal.handlers.base.own_session import OwnSession
from portal.handlers.sessions.estimates import running_options
from portal.launch.kinds import kind_of
from portal.launch.request import AskedResources
from portal.models import Frozen
from portal.models.audit import AuditAction
from portal.models.catalog.environment import Name as EnvironmentName
from portal.models.session.resources import Resources
from portal.models.session.run import SPACE_KEYS, AskedRun, Notify, Run
from portal.models.session.search import MOST_TRIALS, Search
from portal.models.session.session import SessionRecord
from portal.models.space import StoredSpace
from portal.spaces.registry import job_space
from portal.work.run.kind import Run as RunKind
from portal.work.run.kind import sentence_about
from portal.work.run.parts import RunParts

_OF_PORTAL = frozenset({"only", "attempt", "origin", "version", "digest", *SPACE_KEYS})


class NewRun(AskedResources, AskedRun):
    """Run to start: the ``id`` by which the session knows it; its ``name``; the ``source``, a
    notebook or script, for display; the absolute path of the run's ``folder``, with the frozen
    source; the number of ``points``, and how many of them run ``at_once`` at most; ``after``, the
    id of another run of yours that must succeed before; ``notify``, the events that you get mail
    about. Resources, of each point, as for a launch; ``environment``: by default the session's;
    ``search``: how the parameters of the points are chosen, which is up to the session
    otherwise."""

    environment: EnvironmentName | None = None
    search: Search | None = None
    notify: Notify = ()

    @model_validator(mode="wrap")
    @classmethod
    def _run_in_words(cls, values: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Raise InvalidRequest with the Hub's sentence for a key of the run that is wrong."""
        try:
            return handler(values)
        except ValidationError as error:
            sentence, key = sentence_about(error)
            if not sentence:
                raise
            raise InvalidRequest(sentence, key) from None


class StartedRun(Frozen):
    """Run whose job Slurm has. ``server``: the name of its session at the Hub."""

    id: str
    server: str


class RunsOfSession(OwnSession):
    """Base class: the session that asks, if it may start runs."""

    async def space(self, record: SessionRecord) -> StoredSpace | None:
        """Return the space of the session that asks; None for its user's own. Raises NotAllowed
        if it may not start runs, StoreUnavailable."""
        kind = kind_of(record)
        if not kind.job_kernels:
            raise NotAllowed(
                f"Runs are not offered in {kind.title}. Start them in a JupyterLab session of "
                "your own."
            )
        if not record.space:
            return None
        stored = await self.parts.memberships.space(record.space)
        if reason := RunKind.not_offered(stored.space):
            raise NotAllowed(reason)
        return stored


class SessionRuns(RunsOfSession):
    """Runs that the session starts."""

    path = "session/runs"

    @Operation("Start a run.", body=NewRun, status=202, errors=(409, 429))
    async def on_post(self) -> StartedRun:
        """Use the session's own token only; refused in sessions that do not allow it,
        in rooms, and the like.

        The job, an array with a task for each point, is checked like a launch of the session's
        owner; where the session's rules and account are set, by these. The answer comes
        once Slurm has the job, which may wait then.
        """
        record = await self.own_record()
        asked: NewRun = self.body
        for name in _OF_PORTAL & asked.model_fields_set:
            raise InvalidRequest(f"'{name}' of a run is set by the portal.", name)
        environment = asked.environment or record.environment
        resources = asked.model_dump(exclude_unset=True, include=set(Resources.model_fields))
        server = RunKind.server_name(asked.id)
        what = f"Run {asked.name} of {environment}: {asked.points} points, {server}."
        async with self.audited(AuditAction.START_RUN, f"session {record.id}", record.user, what):
            stored = await self.space(record)
            since = record.submitted_at if environment == record.environment else None
            pin = await pin_of(
                self.parts.catalog, self.parts.store, environment, since, record.space
            )
            of_run = {name: getattr(asked, name) for name in AskedRun.model_fields}
            of_run |= {**pin._asdict(), **key_of(stored)}
            run = Run.trusted(
                **of_run,
                user=record.user,
                server=server,
                environment=environment,
                resources={**running_options(record), **resources},
                created_at=time.time(),
            )
            _check_search(asked.search, run)
            await self.parts_for(RunParts).notices.check(run.user, asked.notify)
            async with self.parts_for(RunParts).searches.storing(run, asked.search):
                await self.parts_for(RunParts).starts.begin(run, asked.notify)
        self.done("")
        return StartedRun(id=run.id, server=run.server)


def key_of(stored: StoredSpace | None) -> dict[str, Any]:
    """Return the key of a run with the name of its space; {} for its user's own."""
    return {} if stored is None else job_space(stored.space).own()


def _check_search(search: Search | None, run: Run) -> None:
    """Raise InvalidRequest if a search has too many points."""
    if search is not None and run.points > MOST_TRIALS:
        raise InvalidRequest(
            f"A search has at most {MOST_TRIALS:,} points; this one has {run.points:,}.", "points"
        )


ENDPOINTS = (SessionRuns,)
