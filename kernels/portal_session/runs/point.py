"""Program of a task of a run's array job: it executes one point, and reports to the portal.

All that it finds out is in the point's folder first. The portal may be away for the whole time.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import places
from ..kernels.container import HERE, Container
from ..kernels.environment import for_commands
from ..kernels.shell import set_shell
from ..service import Address, Service
from ..situation import in_thread
from . import RunError
from .environment import arguments, of_program
from .execution.conditions import conditions_of
from .execution.drift import drift_of
from .execution.manifest import (
    Manifest,
    environment_facts,
    gpu_facts,
    program_of,
    python_facts,
    slurm_facts,
)
from .execution.metrics import FILE as METRICS
from .execution.metrics import Metrics
from .execution.outcome import AGAIN, ENDS, RESUMES, STOPPED, SUCCEEDED, Outcome
from .execution.repetition import make_repetition
from .execution.reports import Reports
from .execution.resumption import Resumption
from .execution.script_execution import FILE as LOG
from .execution.script_execution import ScriptExecution, python
from .execution.shown_values import shown_values
from .execution.task import (
    PlannedPoint,
    Task,
    claim_folder,
    manifest_of,
    point_folders,
    read_point,
    read_task,
    succeeded_before,
)
from .frozen import VARIABLE as FROZEN
from .live.channel import LiveChannel
from .live.kept_kernel import kept_until
from .live.logged import LoggedFiles
from .ranks.follower import Follower
from .ranks.layout import Layout
from .ranks.lead import LeadExecution
from .ranks.preflight import Exclusions
from .ranks.team import KILLED, STARTED, TOLD, Team
from .search.question import ask_parameters, objective_missing
from .search.repeated import parameters_before
from .source import injected, parsed
from .tracking.tracking import Tracking

END = "SLURM_JOB_END_TIME"  # Unix seconds; Slurm has it since 23.02
LIMIT = "PORTAL_RUN_OUTPUT_LIMIT"  # bytes of a point's output
_LIMIT = 50 * 1024 * 1024
# Seconds for the last report. A portal that is away for longer reads what is missing from the
# point's folder, by the user's next session; until then, the job of the point keeps its resources.
_LAST = 360.0
_REPORTS = 3.0  # seconds before Slurm's SIGKILL that are left for the end's report
_LEAST = 1.0  # seconds that the program has after SIGTERM in any case
_LAST_STOPPED = 8.0  # the same after SIGTERM: Slurm kills what goes on for long
_SCALARS = 60.0  # seconds for what TensorBoard's files have got last
_SCALARS_STOPPED = 1.0  # the same after SIGTERM
_LAST_OUTPUT = 15.0  # seconds for the last output, after the last report
_LAST_OUTPUT_STOPPED = 3.0
_LAST_LOGGED = 30.0  # seconds for the last pictures and tables, before the last report
_LAST_LOGGED_STOPPED = 1.0
_FACTS = 10.0  # seconds that a point waits for its packages to be listed, after its end
_AT_THE_END = 90.0  # seconds around the end of the job's time, in which SIGTERM is for that


class PointRun:
    """Execution of the task's point, from its files to its last report. ``team``: the ranks of its
    script, if it has several; this is rank 0."""

    def __init__(self, task: Task, environ: Mapping[str, str], team: Team | None = None) -> None:
        self._task, self._environ, self._team = task, environ, team
        self._execution: Any = None
        self._metrics: Metrics | None = None
        self._tracking: Tracking | None = None
        self._values: dict[str, Any] = {}  # parameters, as reports have them
        self._drift: list[str] = []  # of a repetition
        self._conditions: dict[str, Any] = {}  # of a project's run, once they are known
        self._resumption: Resumption | None = None
        self._reason = ""  # why it is stopped
        self._stopped = asyncio.Event()
        self._code: tempfile.TemporaryDirectory[str] | None = None  # what is executed
        address = Address.from_environ(environ)
        self._service = None if address is None else Service(address, environ)
        self._live: LiveChannel | None = None
        self._logged: LoggedFiles | None = None
        about = {"point": task.number, "job": task.job, "attempt": task.attempt}
        self._reports = Reports(self._service, about, self._progress, self._take_answer)

    async def run(self) -> int:
        """Execute the point; return the exit code of the job."""
        about = {"point": self._task.number, "attempt": self._task.attempt}
        self._live = LiveChannel(self._service, about, lambda: self._execution)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._stop)
        loop.add_signal_handler(signal.SIGUSR1, self._save)
        self._reports.start()
        manifest: Manifest | None = None
        facts: list[asyncio.Future[None]] = []
        try:
            # Also in the first attempt: a killed slurmctld forgets a job of which a task has run.
            if done := await in_thread(succeeded_before, self._task):
                self._metrics = Metrics(done / METRICS)
                before = await in_thread(manifest_of, done)
                self._values = shown_values(before.get("parameters") or {})
                self._drift = before.get("drift") or []
                await self._end(Outcome(SUCCEEDED, "", 0), None)
                return 0
            await in_thread(make_repetition, self._task)
            point = await in_thread(read_point, self._task)
            self._code = await in_thread(_private_folder, self._environ)
            code, repeats = Path(self._code.name), self._task.origin is not None
            place = functools.partial(point.frozen.place, code, point.cwd, repeats=repeats)
            await in_thread(place)
            self._values = shown_values(point.values)
            folder = await in_thread(claim_folder, self._task)
            objective = str(point.search["metric"]) if point.search else ""
            self._metrics = Metrics(folder / METRICS, objective)
            self._logged = LoggedFiles(self._service, about, folder)
            self._tracking = Tracking(folder, folder / METRICS, point.cwd)
            self._resumption = Resumption(self._task, folder)
            manifest = Manifest(folder, self._facts(point))
            manifest.write()
            point = await self._with_parameters(point, manifest)
            self._execution = await self._prepared(point, folder)
            facts = [asyncio.ensure_future(self._find_facts(manifest, point))]
            self._tracking.follow(*self._program(point))
            if self._reason:
                self._execution.stop(self._reason, self._patience)
            outcome = await self._execution.run()
            late = bool(self._reason) or self._resumption.asked
            await self._tracking.end(_SCALARS_STOPPED if late else _SCALARS)
            note = self._tracking.note
            checked = self._resumption.checked
            outcome = await in_thread(lambda: checked(outcome, stopped=bool(self._reason)))
            if point.search and outcome.pruned:
                outcome = outcome.in_search()
            elif point.search and outcome.state == SUCCEEDED:
                problem = objective_missing(point.search, await in_thread(self._metrics.newest))
                outcome = Outcome.failed(problem) if problem else outcome
            words = ". ".join(part for part in (outcome.message.rstrip("."), note) if part)
            outcome = outcome._replace(message=words) if note else outcome
        except RunError as error:
            outcome = Outcome.failed(str(error), 72)
        except Exception as error:  # the portal and the manifest say so in any case
            outcome = Outcome.failed(f"The point could not be executed: {error!r}")
        hurries = bool(self._reason) or outcome.exit in AGAIN
        if facts:
            await asyncio.wait(facts, timeout=0 if hurries else _FACTS)
            facts[0].cancel()
        held = getattr(self._execution, "held", None)
        if held is not None and outcome.exit == RESUMES:
            held.end()  # its cell has not failed: it was saved
        elif held is not None:
            outcome = outcome._replace(message=f"{outcome.message}. {held.words}")
        await self._end(outcome, manifest)
        seconds = _LAST_OUTPUT_STOPPED if hurries else _LAST_OUTPUT
        await self._live.end(outcome.state, held, seconds)
        if self._code is not None:
            await in_thread(shutil.rmtree, self._code.name, True)
        return outcome.exit

    async def report(self, outcome: Outcome) -> int:
        """Report the outcome of a point that does not start here; return the exit code."""
        await self._end(outcome, None)
        return outcome.exit

    async def report_killed(self, code: int) -> int:
        """Report the end of a point whose rank 0 was killed before it could, with this exit code;
        STOPPED if Slurm ends the job. Return the exit code."""
        if code == STOPPED:
            self._stop()
        words = f"Rank 0: its program has ended without a word (exit code {code})"
        outcome = Outcome.failed(self._reason or words, code or 1)
        folders = await in_thread(point_folders, self._task.folder, self._task.number)
        known = await in_thread(manifest_of, folders[0]) if folders else {}
        manifest = None
        if known.get("attempt") == self._task.attempt and known.get("state") == "running":
            manifest = Manifest(folders[0], known)
            manifest.note(started_at=known.get("started_at"))
        await self._end(outcome, manifest)
        return outcome.exit

    async def _with_parameters(self, point: PlannedPoint, manifest: Manifest) -> PlannedPoint:
        """Return a search's point with the parameters that the portal chooses. Raises RunError."""
        if point.search is None:
            return point
        number, chosen = self._task.number, None
        if point.repeats is not None:
            chosen = await in_thread(parameters_before, point.repeats, number, point.search)
        if chosen is None:
            chosen = await ask_parameters(self._service, point.search, number, lambda: self._reason)
        values = {**point.values, **chosen}
        manifest.note(parameters=values)
        await in_thread(manifest.write)
        self._values = shown_values(values)
        return point._replace(values=values)

    def _take_answer(self, answer: dict[str, Any]) -> None:
        """Take the answer to a report, in the reports' thread."""
        if self._live is not None:
            self._live.take_answer(answer)
        if self._logged is not None:
            self._logged.send()

    async def _prepared(self, point: PlannedPoint, folder: Path) -> Any:
        """Return the execution of the point. Raises RunError."""
        task, limit = self._task, _limit(self._environ)
        named: dict[str, Any] = {"name": task.name, "number": task.number}
        named["metrics"] = folder / METRICS
        assert self._resumption is not None and self._tracking is not None
        assert self._code is not None
        named["more"] = {**self._tracking.begin(os.environ), **self._resumption.variables}
        if point.source.suffix == ".py":
            make = functools.partial(
                _script, self._environ, task, point, Path(self._code.name), folder
            )
            if self._team is None:
                return make(named["more"], metrics=named["metrics"])
            return LeadExecution(
                self._team,
                folder,
                Exclusions(task.folder, task.number),
                lambda more: make({**named["more"], **more}, metrics=named["metrics"]),
                {
                    "folder": str(folder),
                    "values": point.values,
                    "more": self._resumption.variables,
                },
                self._stop,
                self._save,
            )
        if self._team is not None:
            raise RunError(
                "A notebook cannot have several ranks, since it has one kernel. Write what they do "
                "into a script (.py), or run the notebook on one node."
            )
        try:
            from .execution.notebook_execution import NotebookExecution
        except ModuleNotFoundError as error:
            raise RunError(
                f"This environment cannot execute notebooks: it lacks the Python package "
                f"'{error.name}'. Install 'nbclient' into it, which comes with JupyterLab."
            ) from None
        notebook = injected(parsed(point.frozen.content, point.source.name), point.values)
        named["more"] |= _of_code(self._environ, task, Path(self._code.name))
        execution = NotebookExecution(
            notebook,
            point.kernel,
            folder,
            point.cwd,
            of_program(self._environ, **named),
            limit,
        )
        if task.keep_failed:
            execution.keep_until = lambda: kept_until(self._environ)
        await execution.find()
        return execution

    def _facts(self, point: PlannedPoint) -> dict[str, Any]:
        task = self._task
        return {
            "run": {"id": task.id, "name": task.name},
            "point": task.number,
            "attempt": task.attempt,
            "parameters": point.values,
            "source": {"file": point.source.name, "sha256": point.frozen.plan["sha256"]},
            "kernel": point.kernel,
            "environment": self._environ.get("PORTAL_ENVIRONMENT", ""),
            **environment_facts(task.version, self._environ),
            "working_directory": str(point.cwd),
            "slurm": {"job": task.job, **slurm_facts(self._environ)},
        }

    async def _find_facts(self, manifest: Manifest, point: PlannedPoint) -> None:
        """Find out the GPUs and the packages while the point runs."""
        manifest.note(gpus=await in_thread(gpu_facts, self._environ))
        argv, variables = self._program(point)
        if argv:
            manifest.note(python=await in_thread(python_facts, argv, variables))
        if self._task.origin is not None:
            self._drift = await in_thread(drift_of, self._task, manifest.facts)
            manifest.note(drift=self._drift)
        if self._task.number == 0 and self._environ.get("PORTAL_PROJECT"):
            plan, environ = point.frozen.plan, self._environ
            self._conditions = await in_thread(conditions_of, manifest.facts, plan, environ)
        await in_thread(manifest.write)

    def _program(self, point: PlannedPoint) -> tuple[list[str], dict[str, str]]:
        """Return the argv of the Python that executes the point, and its variables; [] if none
        does."""
        argv, variables = self._python(point), for_commands(self._environ)
        container = Container.from_environ(self._environ)
        if argv and container is not None and argv[0] in container.exec:
            variables = container.environment(variables)
        return argv, variables

    def _python(self, point: PlannedPoint) -> list[str]:
        """Return the argv of the Python that executes the point; [] if none does."""
        container = Container.from_environ(self._environ)
        if point.source.suffix == ".py":
            beside = container is not None
            return container.command(["python3"]) if beside else [python(self._environ)]
        spec = self._execution.spec
        if spec.language.lower() != "python" or not spec.argv:
            return []
        if container is not None and not spec.metadata.get(HERE):
            return container.command(spec.argv[:1])
        return [program_of(spec.argv)]

    def _progress(self) -> dict[str, Any]:
        """Return the report of a point that runs. Called from the reports' thread."""
        return {**self._state("running", self._resumed()), **self._shown(newest=False)}

    def _shown(self, *, newest: bool) -> dict[str, Any]:
        """Return what only reports say, since files of the point have it whole."""
        curves = {} if self._metrics is None else self._metrics.curves(newest=newest)
        known = {"conditions": self._conditions} if self._conditions else {}
        return {"parameters": self._values, "curves": curves, **known}

    def _state(self, state: str, message: str) -> dict[str, Any]:
        """Return what reports and the manifest say. Called from the reports' thread too."""
        return {
            "state": state,
            "cell": getattr(self._execution, "cell", None) or None,
            "cells": getattr(self._execution, "cells", None) or None,
            "message": message,
            "metrics": {} if self._metrics is None else self._metrics.newest(),
            **({"drift": self._drift} if self._drift else {}),
        }

    async def _end(self, outcome: Outcome, manifest: Manifest | None) -> None:
        """Write the manifest, then report the end."""
        report = await in_thread(self._state, outcome.state, outcome.message)
        if outcome.message:
            print(f"Point {self._task.number}: {outcome.message}", file=sys.stderr, flush=True)
        if manifest is not None:
            ended = {**report, "exit": outcome.exit}
            if problem := await in_thread(lambda: manifest.end(**ended)):
                print(problem, file=sys.stderr, flush=True)
        report |= self._shown(newest=True)
        if self._logged is not None:  # before the report: the last one may end the run
            hurries = self._reason or outcome.exit in AGAIN
            sent = asyncio.ensure_future(in_thread(self._logged.send))
            await asyncio.wait({sent}, timeout=_LAST_LOGGED_STOPPED if hurries else _LAST_LOGGED)
        patience = _LAST_STOPPED if self._reason or outcome.exit in AGAIN else _LAST
        sending = asyncio.ensure_future(in_thread(self._reports.finish, report, patience))
        stopped = asyncio.ensure_future(self._stopped.wait())
        first = asyncio.FIRST_COMPLETED
        await asyncio.wait({sending, stopped}, timeout=patience + 1, return_when=first)
        if not sending.done():
            await asyncio.wait({sending}, timeout=_LAST_STOPPED if stopped.done() else 0)
        stopped.cancel()
        if not sending.done() or sending.result():
            problem = sending.result() if sending.done() else "The portal does not answer."
            print(f"The end of the point was not reported: {problem}", file=sys.stderr, flush=True)
        if self._team is not None:
            with contextlib.suppress(OSError):
                await in_thread(self._team.write, TOLD, {})

    def _stop(self) -> None:
        """Stop the point: Slurm sends SIGTERM when it is cancelled, and when its time is over."""
        end, limit = self._environ.get(END, ""), self._task.limit
        around = min(_AT_THE_END, limit / 2) if limit else _AT_THE_END
        late = end.isdecimal() and time.time() > int(end) - around
        late = late or (self._resumption is not None and self._resumption.asked)
        self._reason = self._reason or (
            "The point was stopped: the time limit of its job was reached"
            if late
            else "The point was stopped"
        )
        self._stopped.set()
        if self._execution is not None:
            self._execution.stop(self._reason, self._patience)

    @property
    def _patience(self) -> float:
        """Seconds that the program may take to end after SIGTERM: Slurm's, without those for the
        last report."""
        wait = self._task.kill_wait
        return max(_LEAST, wait - _REPORTS) if wait else ENDS

    def _save(self) -> None:
        """Have the point saved: Slurm sends SIGUSR1 before its time is over."""
        if self._resumption is not None and self._execution is not None:
            self._resumption.ask(self._execution.stop)

    def _resumed(self) -> str:
        """Return what there is to say about a point that runs."""
        of_ranks = getattr(self._execution, "words", "")
        return of_ranks or ("" if self._resumption is None else self._resumption.words)


def _of_code(environ: Mapping[str, str], task: Task, code: Path) -> dict[str, str]:
    """Return the variables by which a program finds its frozen code."""
    named = {FROZEN: str(code)}
    if task.origin is not None and task.origin.user != environ.get("JUPYTERHUB_USER"):
        # Its other processes do not import from a folder that the other user may change.
        named["PYTHONSAFEPATH"] = "1"
    return named


def _script(
    environ: Mapping[str, str],
    task: Task,
    point: PlannedPoint,
    code: Path,
    folder: Path,
    more: Mapping[str, str],
    *,
    metrics: Path,
    log: str = LOG,
) -> ScriptExecution:
    """Return the execution of a point's script, whose frozen code is in ``code``."""
    named = {**more, **_of_code(environ, task, code)}
    variables = of_program(
        environ,
        name=task.name,
        number=task.number,
        metrics=metrics,
        values=point.values,
        more=named,
    )
    return ScriptExecution(
        code / point.source.name,
        point.path,
        arguments(point.values, point.typed),
        folder,
        point.cwd,
        variables,
        _limit(environ),
        log,
        tuple(more),
    )


def _follower(task: Task, team: Team, environ: Mapping[str, str]) -> Follower:
    """Return the program of a rank other than 0. What it logs as metrics is in a file of its own:
    those of the point are rank 0's."""

    def make(
        point: PlannedPoint, code: Path, folder: Path, more: Mapping[str, str], log: str
    ) -> ScriptExecution:
        metrics = folder / Path(log).with_suffix(".metrics.jsonl")
        return _script(environ, task, point, code, folder, more, metrics=metrics, log=log)

    async def report(outcome: Outcome) -> int:
        return await PointRun(task, environ).report(outcome)

    return Follower(task, team, environ, _private_folder, make, report)


def _private_folder(environ: Mapping[str, str]) -> tempfile.TemporaryDirectory[str]:
    """Make a folder of mode 700, which a container beside this program sees too. Raises
    RunError."""
    container, place = Container.from_environ(environ), None
    try:
        if container is not None and not container.has(tempfile.gettempdir()):
            place = Path.home() / ".portal"
            place.mkdir(mode=0o700, exist_ok=True)
        return tempfile.TemporaryDirectory(prefix=".portal-run-", dir=place)
    except OSError as error:
        raise RunError(f"The code of the point cannot be copied: {error.strerror}.") from None


def _limit(environ: Mapping[str, str]) -> int:
    with contextlib.suppress(ValueError):
        return max(1, int(environ.get(LIMIT, "")))
    return _LIMIT


def main() -> None:
    """Execute the point of this job's task. Exits with 72 and a sentence if that is impossible."""
    places.set_places(os.environ)
    set_shell(os.environ)
    try:
        task = read_task(os.environ)
    except RunError as error:
        print(f"This job cannot run a point: {error}", file=sys.stderr)
        raise SystemExit(72) from error
    if task.limit:  # it is about as old as the job
        os.environ.setdefault(END, str(int(time.time()) + task.limit))
    killed = os.environ.get(KILLED, "")
    layout = None if killed else Layout.from_environ(os.environ)
    team = None if layout is None else Team(layout)

    async def run() -> int:
        if killed.isdecimal():
            return await PointRun(task, os.environ).report_killed(int(killed))
        if team is not None and team.layout.rank:
            return await _follower(task, team, os.environ).run()
        if team is not None:
            await in_thread(team.write, STARTED, {})
        return await PointRun(task, os.environ, team).run()

    # Leave at once: a thread may still wait for a portal that does not answer.
    code = asyncio.run(run())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
