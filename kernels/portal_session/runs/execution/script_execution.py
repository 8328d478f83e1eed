"""Execution of a script's point: a child process, whose output is a log that grows."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from ...kernels.container import Container
from ...situation import in_thread
from ..disk import reason
from ..live.rendering import log_rendering
from .outcome import STOPPED, SUCCEEDED, Outcome

FILE = "output.log"
_PART = 65536  # bytes
_TAIL = 4096  # bytes of the end that are kept, for the sentence
_ENDS = 5.0  # seconds that the script may take to end
_TOGETHER = 0.5  # seconds: Slurm ends all processes of a job at once, the script may be quicker
_AFTER = 2.0  # seconds for what its own children print after it


def python(environ: Mapping[str, str]) -> str:
    """Return the Python of the environment's terminals, which need not be the server's."""
    path = environ.get("PATH")
    return shutil.which("python3", path=path) or shutil.which("python", path=path) or sys.executable


class ScriptExecution:
    """Execution of ``script`` with these arguments in ``cwd``; its output grows in ``folder``, up
    to ``largest`` bytes. A script has no cells: `cell` and `cells` are None."""

    cell = cells = None
    kept = None  # a script has no kernel

    def __init__(
        self,
        script: Path,
        arguments: Sequence[str],
        folder: Path,
        cwd: Path,
        variables: Mapping[str, str],
        largest: int,
    ) -> None:
        self._argv = [str(script), *arguments]
        self._folder, self._cwd = folder, cwd
        self._variables = {"PYTHONUNBUFFERED": "1", **variables}
        self._largest, self._size, self._tail = largest, 0, b""
        self._process: asyncio.subprocess.Process | None = None
        self._stopped, self._stopping = "", asyncio.Event()

    def stop(self, reason: str) -> None:
        """Stop the script; ``reason`` is a sentence."""
        self._stopped = self._stopped or reason
        self._stopping.set()
        self._signal(signal.SIGTERM)

    async def rendered(self, state: str, largest: int) -> dict[str, Any]:
        """Return the end of the log, as `log_rendering` does."""
        return await in_thread(log_rendering, self._folder / FILE, largest)

    async def run(self) -> Outcome:
        """Run the script to its end."""
        if self._stopped:
            return Outcome.failed(self._stopped, STOPPED)
        argv, variables = [python(self._variables), *self._argv], self._variables
        container = Container.from_environ(os.environ)
        if container is not None:
            argv = container.command(["python3", *self._argv], str(self._cwd))
            names = ("PYTHONUNBUFFERED", "PYTHONPATH")
            variables = container.environment(variables, names)
        try:
            log = (self._folder / FILE).open("xb", buffering=0)
        except OSError as error:
            return Outcome.failed(f"{FILE} cannot be written: {reason(error)}")
        with log:
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *argv,
                    cwd=self._cwd,
                    env=variables,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.STDOUT,
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                return Outcome.failed(f"The script could not be started: {error}.")
            if self._stopped:  # meanwhile
                self._signal(signal.SIGTERM)
            return await self._follow(self._process, log)

    async def _follow(self, process: asyncio.subprocess.Process, log: IO[bytes]) -> Outcome:
        reading = asyncio.ensure_future(self._read(process, log))
        ending = asyncio.ensure_future(process.wait())
        stopping = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait({ending, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not ending.done():
            await asyncio.wait({ending}, timeout=_ENDS)
        stopping.cancel()
        if not ending.done():
            self._signal(signal.SIGKILL)
        await ending
        await asyncio.wait({reading}, timeout=_AFTER)
        if not reading.done():
            self._signal(signal.SIGKILL)  # children that it left behind, which print still
            reading.cancel()
        results = await asyncio.gather(reading, return_exceptions=True)
        code = ending.result()
        if code == -signal.SIGTERM and not self._stopped:
            await asyncio.sleep(_TOGETHER)
        if self._stopped:
            return Outcome.failed(self._stopped, STOPPED)
        if isinstance(results[0], OSError):
            return Outcome.failed(f"{FILE} cannot be written: {reason(results[0])}")
        return Outcome(SUCCEEDED, "", 0) if code == 0 else Outcome.failed(self._sentence(code))

    async def _read(self, process: asyncio.subprocess.Process, log: IO[bytes]) -> None:
        """Write the script's output; read and drop what exceeds the limit, so that the script
        continues."""
        assert process.stdout is not None
        problem: OSError | None = None
        while part := await process.stdout.read(_PART):
            self._tail = (self._tail + part)[-_TAIL:]
            room = self._largest - self._size
            if room < 0 or problem is not None:
                continue
            self._size += len(part)
            try:
                log.write(part[:room])
                if self._size > self._largest:
                    size = f"{self._largest / 1024**2:.3g} MB"
                    note = f"\nThe rest of this output was dropped: it is larger than {size}.\n"
                    log.write(note.encode())
            except OSError as error:
                problem = error
        if problem is not None:
            raise problem

    def _sentence(self, code: int) -> str:
        lines = self._tail.decode("utf-8", "replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        if last.startswith("EOFError"):
            last = "input() cannot be answered in a run: pass the value as a parameter"
        if code < 0:
            with contextlib.suppress(ValueError):
                name = signal.Signals(-code).name
                return f"The script was terminated by signal {name}. {last}"[:1500]
        return f"{last or 'The script failed'} (exit code {code})"[-1500:]

    def _signal(self, number: int) -> None:
        """Send a signal to the script and all that it has started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)
