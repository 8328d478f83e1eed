"""Runs once more: the points that have not succeeded, or all of them as a new run, exactly."""

from __future__ import annotations

from typing import Any

from portal.catalog.versions.pins import Pin, PinLost, pin_of, pinned
from portal.errors import Conflict, NotAllowed
from portal.handlers.base.endpoint import Operation
from portal.handlers.base.own_session import own_server
from portal.launch.request import AskedResources
from portal.models import Frozen
from portal.models.audit import AuditAction
from portal.models.scope import SESSION_OWN
from portal.models.session.run import Run
from portal.models.space import Role
from portal.spaces.registry import requested_space
from portal.work.run.parts import RunParts
from portal.work.run.tables.runs import RunTable

from .runs import RUN_ID, OwnerQuery, RunAction
from .start import StartedRun

_MOST_ORIGINS = 100


class Repetition(Frozen):
    """Repetition that would be started now: its ``name``; ``author``: the user whose code it
    executes, that of the first run which was repeated; the ``version`` of its ``environment``,
    null: not known; ``drift``: what differs from the original as far as the portal knows, in
    sentences."""

    name: str
    author: str
    environment: str
    version: int | None
    drift: tuple[str, ...]


class StartedRepetition(StartedRun):
    """Repetition whose job Slurm has. ``drift``: as of the Repetition."""

    name: str
    drift: tuple[str, ...]


class AgainRun(RunAction):
    """Points of a run that have not succeeded."""

    path = "runs/{run}/again"
    parameters = {"run": RUN_ID}

    @Operation(
        "Run the unsuccessful points of one of your runs again.",
        body=AskedResources,
        status=202,
        errors=(409, 429),
    )
    async def on_post(self, run: str) -> StartedRun:
        """Start one array job for the points that failed or were lost, in the same run and folder.

        The body has resources that differ from those before, such as more time; it may be ``{}``.
        The run must have ended. Points that succeeded do not run again. The launch is checked like
        any other. The answer comes once Slurm has the job.
        """
        own_run = await self.own(run)
        changes = self.body.model_dump(exclude_unset=True, exclude_none=True)
        async with self.audited(
            AuditAction.RUN_AGAIN, f"run {own_run.id}", own_run.user, own_run.server
        ) as line:
            again = await self.parts_for(RunParts).again.start(own_run, changes)
            line.detail = f"{again.tasks} of {again.points} points, {again.server}."
        self.done("")
        return StartedRun(id=again.id, server=again.server)


class RunRepetition(RunAction):
    """Repetition of a run that is the user's own or shared with the user."""

    path = "runs/{run}/repetitions"
    parameters = {"run": RUN_ID}
    by_session = False

    def check_hub_user(self, model: dict[str, Any]) -> dict[str, Any]:
        self.by_session = own_server(model, SESSION_OWN) is not None
        return super().check_hub_user(model)

    @Operation("Preview a repetition of a run.", query=OwnerQuery, errors=(409,))
    async def on_get(self, run: str) -> Repetition:
        """Return its name, and what will differ, as far as the portal knows before it runs."""
        original = await self.seen(run)
        pin, drift = await self._environment(original)
        return Repetition(
            name=await self.parts_for(RunParts).repetitions.name(self.person.name, original),
            author=await self._author(original),
            environment=original.environment,
            version=pin.version or None,
            drift=drift,
        )

    @Operation(
        "Repeat a run exactly, as a new run.", query=OwnerQuery, status=202, errors=(409, 429)
    )
    async def on_post(self, run: str) -> StartedRepetition:
        """Start a new run of yours with the frozen source, local modules, points and resources of a
        run of yours, or of one that is shared with you.

        Its first job copies the code from the original's folder, which you must be able to read,
        and executes nothing if it is not the code that the original was started with.
        The environment has the same version if that can still be used, and otherwise the one that
        is published now. The answer comes once Slurm has the job.
        """
        original, user = await self.seen(run), self.person.name
        async with self.audited(
            AuditAction.REPEAT_RUN, f"run {original.id}", original.user
        ) as line:
            pin, drift = await self._environment(original)
            new = await self.parts_for(RunParts).repetitions.start(
                user, original, version=pin.version, digest=pin.digest
            )
            line.detail = f"Run {new.name} of {new.environment}: {new.points} points, {new.server}."
        self.done("")
        return StartedRepetition(id=new.id, server=new.server, name=new.name, drift=drift)

    async def _author(self, run: Run) -> str:
        """Return the user who has started the first run that ``run`` repeats, as far as the records
        of those between are kept."""
        for _ in range(_MOST_ORIGINS):
            if run.origin is None:
                break
            before = await self.parts.store.table(RunTable).get(run.origin.user, run.origin.id)
            if before is None:
                return run.origin.user
            run = before
        return run.user

    async def _check_member(self, project: str) -> None:
        """Raise NotAllowed if the user cannot start a run for this project."""
        memberships = self.parts.memberships.of_type("project")
        members = await memberships.of_user(self.person.name)
        role = next((member.role for member in members if member.space == project), None)
        if role is None:
            raise NotAllowed(
                f"This run is for the project '{project}', in which you are not, so you cannot "
                "repeat it. Start a new run of your own."
            )
        if role is Role.READER:
            raise NotAllowed(
                f"This run is for the project '{project}', in which you are a reader, so you "
                "cannot repeat it. Ask an owner of the project to make you a member."
            )

    async def _environment(self, original: Run) -> tuple[Any, tuple[str, ...]]:
        """Return the pin of the repetition, and how its environment differs from the original's.
        Raises NotAllowed, Conflict, StoreUnavailable."""
        if original.folder.startswith("~"):
            raise Conflict("This run has not started yet. Repeat it once its points are running.")
        parts, name = self.parts, original.environment
        if original.project:
            await self._check_member(original.project)
        elif original.space and original.user != self.person.name:
            raise NotAllowed(
                f"Only {original.user} can repeat this run: its files are in {original.user}'s "
                f"folder of the {requested_space(dict(original)).noun} '{original.space}'."
            )
        if not original.code_digest and original.user != self.person.name:
            raise NotAllowed(
                "This run is older than the digests by which the portal knows the code of a run "
                f"again, so it would not be certain what is executed. Ask {original.user} to start "
                "a new run and to share that."
            )
        current = await pin_of(parts.catalog, parts.store, name, space=original.space)
        if original.space:  # the launch says whether its environment can be used
            return current, _image_drift(current, original)
        offer = parts.catalog.offers.get(name)
        known = parts.catalog.environments.get(name)
        # A session's token does not tell its user's groups: then the Hub alone decides.
        seen = known is not None and (self.by_session or parts.catalog.sees(self.person, known))
        if offer is None or offer.environment is None or not seen:
            raise NotAllowed(
                f"The environment '{name}' of this run is not available to you now. Start a new "
                "run in another environment."
            )
        if original.version:
            try:
                await pinned(parts.catalog, parts.store, offer.environment, original.version)
                return current._replace(version=original.version, digest=original.digest), ()
            except PinLost as lost:
                now = f" It runs in version {current.version}." if current.version else ""
                return current, (f"{lost.what}{now}",)
        return current, _image_drift(current, original)


def _image_drift(current: Pin, original: Run) -> tuple[str, ...]:
    if current.digest == original.digest:
        return ()
    current_digest, original_digest = (
        digest[:19] or "not known" for digest in (current.digest, original.digest)
    )
    return (f"The image is {current_digest}; it was {original_digest}.",)


ENDPOINTS = (AgainRun, RunRepetition)
