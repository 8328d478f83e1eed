"""Program of a rank other than 0: it executes its script when rank 0 says so, and reports to none
but it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import shutil
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from ...situation import in_thread
from .. import RunError
from ..execution.outcome import STOPPED, Outcome
from ..execution.script_execution import ScriptExecution
from ..execution.task import PlannedPoint, Task, read_point
from .member import LOOKS, Pulse, introduce, log_name, note_end, pauses, variables
from .network import trial
from .preflight import Exclusions, refusal
from .team import GO, HALT, HERE, SPEAKS, STARTED, Team

# ``make(point, values, code, folder, more, log)`` returns the execution of the script.
Make = Callable[..., ScriptExecution]
_OTHERS = 3.0  # seconds for what other ranks have to say, if rank 0 has not started
_ALONE = 60.0  # seconds without a sign of rank 0 until this rank ends


class Follower:
    """Rank other than 0 of a task. ``report``: reports the outcome of a point in the place of rank
    0, if that has not started, and returns the exit code."""

    def __init__(
        self,
        task: Task,
        team: Team,
        environ: Mapping[str, str],
        private_folder: Callable[[Mapping[str, str]], Any],
        make: Make,
        report: Callable[[Outcome], Awaitable[int]],
    ) -> None:
        self._task, self._team, self._environ = task, team, environ
        self._private_folder, self._make = private_folder, make
        self._report = report
        self._script: ScriptExecution | None = None
        self._reason, self._stopped = "", False

    async def run(self) -> int:
        """Follow rank 0 to the end; return the exit code of this program, which is 0 if the end was
        told."""
        # Slurm sends it to all ranks when it ends the job; rank 0 decides what they do.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._stop)
        pulse = Pulse(self._team)
        watching = asyncio.ensure_future(self._watch())
        folder = None
        try:
            await introduce(self._team, apart=await self._trial())
            go = await self._told()
            if go is None:
                unfit = await self._refusal()
                return 0 if unfit is None else await self._report(unfit)
            folder = await in_thread(self._private_folder, self._environ)
            point = await in_thread(read_point, self._task)
            outcome = await self._execute(go, point, Path(folder.name), pulse)
        except RunError as error:
            outcome = Outcome.failed(str(error))
        except Exception as error:  # rank 0 says so
            outcome = Outcome.failed(f"The rank could not be executed: {error!r}")
        finally:
            watching.cancel()
            pulse.end()
        if outcome.message:
            rank = self._team.layout.rank
            print(f"Rank {rank}: {outcome.message}", file=sys.stderr, flush=True)
        await note_end(self._team, outcome, self._script)
        if folder is not None:
            await in_thread(shutil.rmtree, folder.name, True)
        return 0

    async def _execute(
        self, go: Mapping[str, Any], point: PlannedPoint, code: Path, pulse: Pulse
    ) -> Outcome:
        place = functools.partial(
            point.frozen.place, code, point.cwd, repeats=self._task.origin is not None
        )
        await in_thread(place)
        at = (go["address"], go["port"], go["workers"])
        more = {**dict(go["more"]), **variables(os.environ, self._team, *at)}
        folder, log = Path(go["folder"]), log_name(self._team.layout.rank)
        point = point._replace(values=dict(go["values"]))
        self._script = pulse.script = self._make(point, code, folder, more, log)
        if self._reason:
            self._script.stop(self._reason)
        return await self._script.run()

    async def _trial(self) -> str:
        """Try to reach rank 0's node, once it is known; return why that failed."""
        if not self._team.layout.leads_node:
            return ""
        pause = pauses()
        while (first := await in_thread(self._team.read, HERE, 0)) is None:
            if self._reason or await in_thread(self._left):
                return ""
            await asyncio.sleep(next(pause))
        if first.get("node") == self._team.layout.node:
            return ""
        return await trial(str(first["address"]), int(first["meeting"]), str(first["key"]))

    async def _told(self) -> dict[str, Any] | None:
        """Return what rank 0 tells all, once it does; None if the point does not start."""
        pause = pauses()
        while (go := await in_thread(self._team.of_lead, GO)) is None:
            if self._reason or await in_thread(self._left):
                return None
            await asyncio.sleep(next(pause))
        return go

    async def _refusal(self) -> Outcome | None:
        """Return the outcome of a point whose rank 0 has not started, as its node is unfit; None
        if it has, or if another rank says so."""
        code, _ = await in_thread(self._team.over, 0) or (0, "")
        if code in (0, STOPPED) or await in_thread(self._team.has, f"0.{STARTED}"):
            return None
        await asyncio.sleep(_OTHERS)
        here, over = await in_thread(self._team.answers)
        if self._stopped or not await in_thread(self._team.claim, SPEAKS):
            return None
        exclusions = Exclusions(self._task.folder, self._task.number)
        return await in_thread(refusal, here, over, self._team, exclusions)

    def _stop(self) -> None:
        self._stopped = True

    def _left(self) -> bool:
        return self._team.over(0) is not None

    async def _watch(self) -> None:
        """End the script when rank 0 says so, or is gone."""
        heard, since = None, asyncio.get_running_loop().time()
        while True:
            halt = await in_thread(self._team.of_lead, HALT)
            now, sign = asyncio.get_running_loop().time(), None
            with contextlib.suppress(OSError):
                sign = await in_thread(self._team.read, "alive", 0)
            if sign != heard:
                heard, since = sign, now
            gone = await in_thread(self._left) or (heard is not None and now - since > _ALONE)
            if halt is not None or gone:
                reason = str((halt or {}).get("reason") or "Rank 0 has ended")
                self._reason = self._reason or reason
                if self._script is not None:
                    self._script.stop(self._reason, float((halt or {}).get("seconds") or 5.0))
                return
            await asyncio.sleep(LOOKS)
