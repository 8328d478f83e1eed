"""Program of a task of a run's array job: it executes one point, and reports to the portal.

All that it finds out is in the point's folder first. The portal may be away for the whole time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import places
from ..kernels.command_line import for_commands
from ..kernels.container import HERE, Container
from ..kernels.shell import set_shell
from ..service import Address, Service
from ..situation import in_thread
from . import RunError
from .environment import arguments, of_program
from .execution.manifest import Manifest, gpu_facts, program_of, python_facts, slurm_facts
from .execution.metrics import FILE as METRICS
from .execution.metrics import Metrics
from .execution.outcome import RESUMES, Outcome
from .execution.reports import Reports
from .execution.resumption import Resumption
from .execution.script_execution import ScriptExecution, python
from .execution.task import PlannedPoint, Task, claim_folder, read_point, read_task
from .source import injected, parsed

LIMIT = "PORTAL_RUN_OUTPUT_LIMIT"  # bytes of a point's output
_LIMIT = 50 * 1024 * 1024
_LAST = 60.0  # seconds for the last report
_LAST_STOPPED = 8.0  # the same after SIGTERM: Slurm kills what goes on for long
_FACTS = 10.0  # seconds that a point waits for its packages to be listed, after its end
_AT_THE_END = 90.0  # seconds around the end of the job's time, in which SIGTERM is for that


class PointRun:
    """Execution of the task's point, from its files to its last report."""

    def __init__(self, task: Task, environ: Mapping[str, str]) -> None:
        self._task, self._environ = task, environ
        self._execution: Any = None
        self._metrics: Metrics | None = None
        self._resumption: Resumption | None = None
        self._reason = ""  # why it is stopped
        address = Address.of(environ)
        service = None if address is None else Service(address, environ)
        about = {"point": task.number, "job": task.job, "attempt": task.attempt}
        self._reports = Reports(service, about, lambda: self._state("running", self._resumed()))

    async def run(self) -> int:
        """Execute the point; return the exit code of the job."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._stop)
        loop.add_signal_handler(signal.SIGUSR1, self._save)
        self._reports.start()
        manifest: Manifest | None = None
        facts: list[asyncio.Future[None]] = []
        try:
            point = await in_thread(read_point, self._task)
            folder = await in_thread(claim_folder, self._task)
            self._metrics = Metrics(folder / METRICS)
            self._resumption = Resumption(self._task, folder)
            manifest = Manifest(folder, self._facts(point))
            manifest.write()
            self._execution = await self._prepared(point, folder)
            facts = [asyncio.ensure_future(self._find_facts(manifest, point))]
            if self._reason:
                self._execution.stop(self._reason)
            outcome = await self._execution.run()
            judged = self._resumption.judged
            outcome = await in_thread(lambda: judged(outcome, stopped=bool(self._reason)))
        except RunError as error:
            outcome = Outcome.failed(str(error), 72)
        except Exception as error:  # the portal and the manifest say so in any case
            outcome = Outcome.failed(f"The point could not be executed: {error!r}")
        if facts:
            hurries = self._reason or outcome.exit == RESUMES
            await asyncio.wait(facts, timeout=0 if hurries else _FACTS)
            facts[0].cancel()
        await self._end(outcome, manifest)
        return outcome.exit

    async def _prepared(self, point: PlannedPoint, folder: Path) -> Any:
        """Return the execution of the point. Raises RunError."""
        task, limit = self._task, _limit(self._environ)
        named: dict[str, Any] = {"name": task.name, "number": task.number}
        named["metrics"] = folder / METRICS
        assert self._resumption is not None
        named["more"] = self._resumption.variables
        if point.source.suffix == ".py":
            variables = of_program(self._environ, **named, values=point.values, first=point.cwd)
            return ScriptExecution(
                point.source, arguments(point.values), folder, point.cwd, variables, limit
            )
        try:
            from .execution.notebook_execution import NotebookExecution
        except ModuleNotFoundError as error:
            raise RunError(
                f"This environment cannot execute notebooks: it lacks the Python package "
                f"'{error.name}'. Install 'nbclient' into it, which comes with JupyterLab."
            ) from None
        content = await in_thread(point.source.read_bytes)
        notebook = injected(parsed(content, point.source.name), point.values)
        execution = NotebookExecution(
            notebook,
            point.kernel,
            folder,
            point.cwd,
            of_program(self._environ, **named),
            limit,
        )
        await execution.find()
        return execution

    def _facts(self, point: PlannedPoint) -> dict[str, Any]:
        task = self._task
        return {
            "run": {"id": task.id, "name": task.name},
            "point": task.number,
            "attempt": task.attempt,
            "parameters": point.values,
            "source": {"file": point.source.name, "sha256": point.sha256},
            "kernel": point.kernel,
            "environment": self._environ.get("PORTAL_ENVIRONMENT", ""),
            "working_directory": str(point.cwd),
            "slurm": {"job": task.job, **slurm_facts(self._environ)},
        }

    async def _find_facts(self, manifest: Manifest, point: PlannedPoint) -> None:
        """Find out the GPUs and the packages while the point runs."""
        manifest.note(gpus=await in_thread(gpu_facts, self._environ))
        argv = self._python(point)
        if argv:
            variables = for_commands(self._environ)
            container = Container.of(self._environ)
            if container is not None and argv[0] in container.exec:
                variables = container.environment(variables)
            manifest.note(python=await in_thread(python_facts, argv, variables))
        await in_thread(manifest.write)

    def _python(self, point: PlannedPoint) -> list[str]:
        """Return the argv of the Python that executes the point; [] if none does."""
        container = Container.of(self._environ)
        if point.source.suffix == ".py":
            beside = container is not None
            return container.command(["python3"]) if beside else [python(self._environ)]
        spec = self._execution.spec
        if spec.language.lower() != "python" or not spec.argv:
            return []
        if container is not None and not spec.metadata.get(HERE):
            return container.command(spec.argv[:1])
        return [program_of(spec.argv)]

    def _state(self, state: str, message: str) -> dict[str, Any]:
        """Return what a report says. Called from the reports' thread too."""
        return {
            "state": state,
            "cell": getattr(self._execution, "cell", None) or None,
            "cells": getattr(self._execution, "cells", None) or None,
            "message": message,
            "metrics": {} if self._metrics is None else self._metrics.newest(),
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
        patience = _LAST_STOPPED if self._reason or outcome.exit == RESUMES else _LAST
        sending = asyncio.ensure_future(in_thread(self._reports.finish, report, patience))
        await asyncio.wait({sending}, timeout=patience + 1)
        if not sending.done() or sending.result():
            problem = sending.result() if sending.done() else "The portal does not answer."
            print(f"The end is not reported: {problem}", file=sys.stderr, flush=True)

    def _stop(self) -> None:
        """Stop the point: Slurm sends SIGTERM when it is cancelled, and when its time is over."""
        end = self._environ.get("SLURM_JOB_END_TIME", "")
        late = end.isdecimal() and time.time() > int(end) - _AT_THE_END
        late = late or (self._resumption is not None and self._resumption.asked)
        self._reason = self._reason or (
            "The point was ended: the time limit of its job was reached"
            if late
            else "The point was stopped"
        )
        if self._execution is not None:
            self._execution.stop(self._reason)

    def _save(self) -> None:
        """Have the point saved: Slurm sends SIGUSR1 before its time is over."""
        if self._resumption is not None and self._execution is not None:
            self._resumption.ask(self._execution.stop)

    def _resumed(self) -> str:
        return "" if self._resumption is None else self._resumption.words


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
    # Leave at once: a thread may still wait for a portal that does not answer.
    code = asyncio.run(PointRun(task, os.environ).run())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
