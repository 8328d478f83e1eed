"""Run of a notebook or script for many points: one Slurm array job, a task for each point.

Its job opens no port. Each task executes its point (portal_session/runs/point.py), and reports to
the service; the Hub sees one session whose program is no server.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Self

from pydantic import TypeAdapter, ValidationError

from portal.errors import InvalidRequest, NotAllowed, StoreUnavailable, Unavailable
from portal.launch.kinds.by_id import KindById
from portal.launch.kinds.kind import AskedFor, KindWords, LaunchFacts, Lookup, Place
from portal.models.catalog.environment import Environment
from portal.models.session.run import AskedRun, RunFolder
from portal.models.should_be import should_be
from portal.models.space import Space
from portal.spaces.registry import requested_space
from portal.work.kernel.kind import kernel_environment

from .settings import Runs
from .tables.runs import RunTable

OPTION = "run"  # the key of ``user_options``; its keys are those of AskedRun
# What only the portal says of a run, in its record.
_OF_PORTAL = {"only", "attempt", "origin", "version", "digest"}
_FOLDER = TypeAdapter(RunFolder)


class Run(KindById):
    """Run ``run``."""

    name = "run"
    title = "a run"
    option = OPTION
    prefix = "run"
    noun = "run"
    module = "portal_session.runs.point"
    array = True
    words = KindWords(noun="run", program="program", shut_down="The run has ended.")

    run: AskedRun
    after_job: str = ""  # Slurm's id of the job of ``run.after``, as the Hub knows it
    limit: int = 0  # time limit of a point in seconds; 0: none
    kill_wait: int = 0  # seconds between Slurm's SIGTERM and SIGKILL; 0: unknown
    notice: int = 60  # seconds before the time limit at which a point is told to save itself

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> Self | None:
        run = asked_run(options)
        if run is None:
            return None
        return cls.trusted(run=run, space=requested_space(dict(run)))

    @property
    def id_(self) -> str:
        return self.run.id

    async def place(self, asked: AskedFor, hub: Lookup, facts: LaunchFacts) -> Place:
        await self._check_record(hub)
        run, slurm = await self._at_home(hub), await hub.slurm_limits()
        place = await super().place(asked, hub, facts)
        own = dict(place.environments)
        # A space's environment is pinned by the space.
        if self.run.version and not self.space.name and asked.environment in own:
            own[asked.environment] = await hub.pinned(own[asked.environment], self.run.version)
        # Nothing is awaited after this, or launches at the same moment would not see each other.
        self._check_limits(hub, slurm.array_tasks)
        environments = {
            name: chosen.model_copy(
                update={"title": f"Run {self.run.name} of {chosen.title}"[:120]}
            )
            for name, chosen in own.items()
        }
        known = {"run": run, "after_job": self._job_before(hub)}
        known |= {"notice": hub.settings(Runs).notice, "kill_wait": slurm.kill_wait or 0}
        kind = place.kind.model_copy(update=known)
        return place._replace(environments=environments, kind=kind)

    async def _check_record(self, hub: Lookup) -> None:
        """Raise NotAllowed if the run is not as the portal has recorded it before it asked the Hub,
        StoreUnavailable if that is not known. A run without a record may say of itself what a
        session says."""
        of_portal = self.run.model_dump(include=_OF_PORTAL, exclude_defaults=True)
        try:
            record = await hub.recorded(RunTable, self.run.id)
        except StoreUnavailable:
            if of_portal:
                raise
            return
        if record is None:
            forged = list(of_portal)
        else:
            # A launch after the run before has succeeded does not name that.
            names = AskedRun.model_fields.keys() - {"after"}
            forged = [name for name in names if getattr(record, name) != getattr(self.run, name)]
        if forged:
            raise NotAllowed(
                f"The portal has not recorded this '{min(forged)}' of the run. Start it with "
                "portal-run or in JupyterLab, and repeat it on its page."
            )

    async def _at_home(self, hub: Lookup) -> AskedRun:
        """Return the run with the absolute path of its folder. Raises InvalidRequest."""
        if not self.run.folder.startswith("~/"):
            return self.run
        folder = (await hub.home()).rstrip("/") + self.run.folder[1:]
        try:
            _FOLDER.validate_python(folder)
        except ValidationError:  # such as a path that has become too long
            raise InvalidRequest(_sentence("folder"), OPTION) from None
        return self.run.model_copy(update={"folder": folder})

    def _job_before(self, hub: Lookup) -> str:
        """Return the job that this run's is to wait for; "" for none. Raises Unavailable."""
        if not self.run.after:
            return ""
        job_id = next((job for run, job in _others(hub) if run.id == self.run.after), "")
        if not job_id:
            raise Unavailable(
                "The run before this one is being submitted or is ending at the moment. "
                "Try again in a minute."
            )
        return job_id

    def within(self, seconds: int | None) -> Self:
        notice = self.notice if seconds is None else min(self.notice, max(1, seconds // 4))
        return self.model_copy(update={"notice": notice, "limit": seconds or 0})

    def _check_limits(self, hub: Lookup, largest: int | None) -> None:
        """Raise NotAllowed if the user may not have this run beside the others. ``largest``: the
        maximum number of tasks of a Slurm array; None: unknown."""
        limits, points = hub.settings(Runs), self.run.points
        if self.run.ranks > 1 and not self.run.source.endswith(".py"):
            raise InvalidRequest(
                "A notebook has one kernel, and no ranks. Write what they do into a script (.py).",
                "ranks",
            )
        if self.run.ranks > 1 and self.space.name:
            raise NotAllowed(
                f"Runs of a {self.space.noun} are on one node, and their scripts have one rank."
            )
        if not limits.per_user:
            raise NotAllowed("Runs are not offered on this site.")
        if points > limits.points:
            raise NotAllowed(
                f"This run has {points:,} points; the limit of this site is {limits.points:,}. "
                "Split it into several runs."
            )
        if largest is not None and points > largest:
            raise NotAllowed(
                f"This run has {points:,} points; Slurm allows {largest:,} tasks in an array job "
                "here. Split it into several runs, or ask an admin to raise MaxArraySize in "
                "slurm.conf."
            )
        others = [run for run, _ in _others(hub)]
        if len(others) >= limits.per_user:
            raise NotAllowed(
                f"You have {len(others)} runs waiting or running; the limit is {limits.per_user}. "
                "Wait until one has ended, or stop one."
            )
        held, tasks = sum(run.tasks for run in others), self.run.tasks
        if held + tasks > limits.points_per_user:
            raise NotAllowed(
                f"Your waiting and running runs have {held:,} points; with this one, they would "
                f"have {held + tasks:,}. The limit is {limits.points_per_user:,}. Wait until one "
                "has ended, or stop one."
            )

    @classmethod
    def not_offered(cls, space: Space) -> str:
        if space.runs:
            return ""
        return (
            f"The {space.called} does not allow runs. Its {space.leader} can allow them in the "
            f"{space.noun}'s settings."
        )

    @classmethod
    def needs_gpus(cls, asked: AskedFor, space: Space) -> bool:
        return bool(asked.given().get("gpus", space.default.gpus))

    @classmethod
    def narrowed(
        cls, environment: Environment, space: Space, asked: AskedFor, *, gpus: bool
    ) -> Environment:
        """Return what sessions have, on one node. Points with GPUs of a space whose sessions have
        none by default are on the nodes of its kernels."""
        if cls.needs_gpus(asked, space) and not space.default.gpus:
            return kernel_environment(environment, space, gpus=gpus)
        offered = super().narrowed(environment, space, asked, gpus=gpus)
        default = offered.default.model_copy(update={"nodes": 1})
        return offered.model_copy(update={"default": default})

    def own(self) -> dict[str, Any]:
        return {OPTION: self.run.model_dump(exclude_defaults=True)}

    def variables(self) -> dict[str, str]:
        run = self.run
        of_job: dict[str, Any] = run.model_dump(include={"id", "name", "folder", "points"})
        more = {"keep_failed", "attempt", "origin", "version", "code_digest"}
        of_job |= run.model_dump(include=more, exclude_defaults=True)
        if self.limit:
            of_job["limit"] = self.limit
        if self.kill_wait:
            of_job["kill_wait"] = self.kill_wait
        if run.resumes:
            of_job |= {"resumes": run.resumes, "notice": self.notice}
        return {**super().variables(), "PORTAL_RUN": json.dumps(of_job)}

    def script_variables(self, account: str, home: str) -> dict[str, str]:
        own = {"PORTAL_RESUMES": str(self.run.resumes)} if self.run.resumes else {}
        if self.run.source.endswith(".py") and not self.space.name:
            own["PORTAL_RANKS"] = str(self.run.ranks)
        return {**super().script_variables(account, home), **own}

    def sbatch_options(self) -> Sequence[str]:
        numbers = self.run.only or f"0-{self.run.points - 1}"
        # Each execution of a point has a folder of its own, so one whose node has failed, or that
        # was preempted, is executed again.
        options = [f"--array={numbers}%{self.run.at_once}", "--requeue"]
        if self.run.resumes:
            options.append(f"--signal=B:USR1@{self.notice}")
        if self.after_job:
            # Otherwise Slurm would keep a job for ever that can no longer start.
            options += [f"--dependency=afterok:{self.after_job}", "--kill-on-invalid-dep=yes"]
        return options


def _others(hub: Lookup) -> list[tuple[AskedRun, str]]:
    """Return the user's other runs that wait or run, each with its job's id; "" for none yet."""
    others = (other for other in hub.others() if other.work == Run.name)
    return [(run, other.job_id) for other in others if (run := asked_run(other.options))]


def asked_run(options: Mapping[str, Any]) -> AskedRun | None:
    """Parse the run in ``user_options``; None without one. Raises InvalidRequest."""
    value = options.get(OPTION)
    if value is None or value == "":
        return None
    if isinstance(value, AskedRun):
        return value
    if not isinstance(value, Mapping):
        raise InvalidRequest(f"'{OPTION}' must be an object with {_listed()}.", OPTION)
    try:
        return AskedRun.model_validate(dict(value))
    except (ValidationError, TypeError) as error:
        wrong = sentence_about(error)[0] if isinstance(error, ValidationError) else ""
        unknown = f"'{OPTION}' has an unknown key. Allowed keys: {_listed()}."
        raise InvalidRequest(wrong or unknown, OPTION) from None


def sentence_about(error: ValidationError) -> tuple[str, str]:
    """Return the sentence about the first key of a run that is wrong, and the key; "" and "" if the
    error is about no key of a run."""
    first = error.errors(include_input=False)[0]
    # What is wrong with the run as a whole are its points (``AskedRun``).
    whole = "only" if first["type"] == "value_error" else ""
    key = str((*first["loc"], whole)[0])
    return (_sentence(key), key) if key in AskedRun.model_fields else ("", "")


def _sentence(key: str) -> str:
    return f"The '{key}' of a run must be {should_be(AskedRun, key)}."


def _listed() -> str:
    return ", ".join(f"'{key}'" for key in AskedRun.model_fields)
