"""Execution of a script's point: a child process, whose output is a log that grows."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from ...kernels.container import Container
from ...kernels.environment import LIBRARY
from ...situation import in_thread
from ..disk import reason
from ..environment import FROZEN, SOURCE
from ..live.plain_text import plain_text
from ..live.rendering import log_rendering
from .outcome import ENDS, PRUNED, STOPPED, SUCCEEDED, Outcome

FILE = "output.log"
_PART = 65536  # bytes
_TAIL = 4096  # bytes of the end that are kept, for the sentence
_TOGETHER = 0.5  # seconds: Slurm ends all processes of a job at once, the script may be quicker
_AFTER = 2.0  # seconds for what its own children print after it
_LEAST = 1.0  # seconds for the last of what they have printed, when they are ended
_LONGEST, _MOST_LINES = 1400, 4  # characters and lines of an error in the sentence
_TRACEBACK = "Traceback (most recent call last):"
_GROUP = re.compile(r"  \| (\w.* \([0-9]+ sub-exceptions?\))")  # an ExceptionGroup's own line
_MAIN = "portal_main"  # module of LIBRARY, which executes the frozen source


def python(environ: Mapping[str, str]) -> str:
    """Return the Python of the environment's terminals, which need not be the server's."""
    path = environ.get("PATH")
    return shutil.which("python3", path=path) or shutil.which("python", path=path) or sys.executable


class ScriptExecution:
    """Execution of ``script``, the frozen copy of the file ``path``, with these arguments in
    ``cwd``; its output grows in the file ``log`` of ``folder``, up to ``largest`` bytes. A script
    has no cells: `cell` and `cells` are None. ``passed``: names of variables that a container
    beside this program gets too. `code`: its exit code, once it has ended."""

    cell = cells = None
    held = None  # a script has no kernel

    def __init__(
        self,
        script: Path,
        path: Path,
        arguments: Sequence[str],
        folder: Path,
        cwd: Path,
        variables: Mapping[str, str],
        largest: int,
        log: str = FILE,
        passed: Sequence[str] = (),
    ) -> None:
        self._script, self._arguments, self._cwd = script, arguments, cwd
        self._log, self._passed = folder / log, passed
        self.code: int | None = None
        self._variables = {"PYTHONUNBUFFERED": "1", **variables}
        self._variables |= {FROZEN: str(script), SOURCE: str(path)}
        self._largest, self._size, self._tail = largest, 0, b""
        self._process: asyncio.subprocess.Process | None = None
        self._stopped, self._stopping = "", asyncio.Event()
        self._patience = ENDS

    @property
    def pid(self) -> int | None:
        """Process of the script while it runs, which leads a group of its own."""
        return None if self._process is None or self.code is not None else self._process.pid

    def stop(self, reason: str, seconds: float = ENDS) -> None:
        """Stop the script, which has ``seconds`` to end; ``reason`` is a sentence."""
        self._stopped, self._patience = self._stopped or reason, seconds
        self._stopping.set()
        self._signal(signal.SIGTERM)

    async def rendered(self, state: str, largest: int, rank: int = 0) -> dict[str, Any]:
        """Return the end of the log, as `log_rendering` does."""
        return await in_thread(log_rendering, self._log, largest)

    async def run(self) -> Outcome:
        """Run the script to its end."""
        if self._stopped:
            return Outcome.failed(self._stopped, STOPPED)
        if not self._cwd.is_dir() and Container.from_environ(os.environ) is None:
            return Outcome.failed(f"The script could not be started: {self._cwd} is no folder.")
        main, start = LIBRARY / f"{_MAIN}.py", str(self._script.parent)
        argv, variables = [python(self._variables), "-m", _MAIN], self._variables
        container = Container.from_environ(os.environ)
        if container is not None:
            inside = ["-m", _MAIN] if container.has(str(main)) else ["-c", main.read_text()]
            argv = container.command(["python3", *inside, *self._arguments], start)
            names = ("PYTHONUNBUFFERED", "PYTHONPATH", *self._passed)
            variables = container.environment(variables, names)
        else:
            argv += self._arguments
        try:
            log = self._log.open("xb", buffering=0)
        except OSError as error:
            return Outcome.failed(f"{self._log.name} cannot be written: {reason(error)}")
        with log:
            # Not asyncio's own pipe: with it, the end of the script is that of all who hold it.
            read_end, write_end = os.pipe()
            output = os.fdopen(read_end, "rb", buffering=0)
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *argv,
                    cwd=start,
                    env=variables,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=write_end,
                    stderr=asyncio.subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=_of_mpi(variables),
                )
            except (OSError, ValueError) as error:
                output.close()
                return Outcome.failed(f"The script could not be started: {error}.")
            finally:
                os.close(write_end)
            if self._stopped:  # meanwhile
                self._signal(signal.SIGTERM)
            reader = asyncio.StreamReader()
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), output
            )
            pipe = os.fstat(output.fileno()).st_ino
            try:
                return await self._follow(self._process, reader, pipe, log)
            finally:
                transport.close()

    async def _follow(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        pipe: int,
        log: IO[bytes],
    ) -> Outcome:
        """Follow the process to its end. ``pipe``: inode of the pipe with its output."""
        reading = asyncio.ensure_future(self._read(reader, log))
        ending = asyncio.ensure_future(process.wait())
        stopping = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait({ending, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not ending.done():
            await asyncio.wait({ending}, timeout=self._patience)
        stopping.cancel()
        if not ending.done():
            self._signal(signal.SIGKILL)
        await ending
        await asyncio.wait({reading}, timeout=_AFTER)
        left = ""
        if not reading.done():
            left = await in_thread(_end_holders, pipe)
            await asyncio.wait({reading}, timeout=_LEAST)
            reading.cancel()
        results = await asyncio.gather(reading, return_exceptions=True)
        code = self.code = ending.result()
        if code == -signal.SIGTERM and not self._stopped:
            await asyncio.sleep(_TOGETHER)
        if self._stopped:
            return Outcome.failed(self._stopped, STOPPED)
        if isinstance(results[0], OSError):
            return Outcome.failed(f"{self._log.name} cannot be written: {reason(results[0])}")
        if code == 0:
            return Outcome(SUCCEEDED, left, 0)
        sentence = self._sentence(code)
        pruned = re.match(rf"optuna\.([a-z_]+\.)*{PRUNED}\b", sentence) is not None
        return Outcome.failed(f"{sentence}. {left}" if left else sentence)._replace(pruned=pruned)

    async def _read(self, reader: asyncio.StreamReader, log: IO[bytes]) -> None:
        """Write the script's output; read and drop what exceeds the limit, so that the script
        continues."""
        problem: OSError | None = None
        while part := await reader.read(_PART):
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
        lines = plain_text(self._tail.decode("utf-8", "replace")).split("\n")
        error = _error_of(lines) if code == 1 else ""  # Python's, after an error
        last = error or next((line for line in reversed(lines) if line.strip()), "")
        last = " ".join(last.split())[:_LONGEST]
        if last.startswith("EOFError"):
            last = "input() cannot be answered in a run: pass the value as a parameter"
        if code < 0:
            with contextlib.suppress(ValueError):
                name = signal.Signals(-code).name
                return f"The script was terminated by signal {name}. {last}".rstrip()
        return f"{last or 'The script failed'} (exit code {code})"

    def _signal(self, number: int) -> None:
        """Send a signal to the script and all that it has started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)


def _of_mpi(variables: Mapping[str, str]) -> tuple[int, ...]:
    """Return the descriptor by which a library of MPI asks srun for the other ranks (PMI-1, 2)."""
    with contextlib.suppress(KeyError, ValueError, OSError):
        descriptor = int(variables["PMI_FD"])
        os.fstat(descriptor)
        return (descriptor,)
    return ()


def _error_of(lines: Sequence[str]) -> str:
    """Return the error of the last traceback in an output; of a message with many lines, the first
    and the last. "" without a traceback."""
    begin = next((n for n in reversed(range(len(lines))) if _TRACEBACK in lines[n]), len(lines))
    if begin < len(lines) and lines[begin].strip() != _TRACEBACK:  # of a group, drawn as a tree
        return next((match[1] for line in reversed(lines) if (match := _GROUP.match(line))), "")
    after = [line for line in lines[begin + 1 :] if line.strip()]
    error = next((n for n, line in enumerate(after) if not line[0].isspace()), len(after))
    shown = after[error:]
    return " ".join(shown if len(shown) <= _MOST_LINES else [shown[0], "…", shown[-1]])


def _end_holders(pipe: int) -> str:
    """Kill the user's other processes that hold the pipe of this inode open (proc(5)); return a
    sentence that names them. Blocks."""
    names = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):  # another user's, or it has ended
            number = int(process.name)
            links = {os.readlink(link) for link in (process / "fd").iterdir()}  # noqa: PTH115
            if number != os.getpid() and f"pipe:[{pipe}]" in links:
                name = (process / "comm").read_text(errors="replace").strip()
                os.kill(number, signal.SIGKILL)
                names.append(f"{name} ({number})")
    if not names:
        return ""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return (
        f"It left behind {', '.join(names[:3])}{more}, which held its output open and "
        f"{'were' if len(names) > 1 else 'was'} ended."
    )
