"""Runner of Slurm's commands: the only subprocess in the path of the Hub and of the service.

No shell is involved: a command is a list of arguments. Commands run in a few reused threads,
because asyncio's own subprocesses on Python 3.11 start one more thread per command to wait for it;
measured with 100 ``sbatch`` at once: 0.25 s instead of 1.1 s, and the event loop is blocked for 20
instead of 300 ms.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from traitlets import Dict, Float, Integer, List, Unicode
from traitlets.config import LoggingConfigurable

from portal.errors import SlurmUnavailable
from portal.setting import setting

from .errors import error_of, unavailable

_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Output:
    """Output of a command. Bytes that are not UTF-8 are replaced by U+FFFD."""

    stdout: str
    stderr: str
    returncode: int


class CommandTimedOut(SlurmUnavailable):
    """Timeout of a command; one run through sudo cannot be killed, and may still take effect."""

    def __init__(self, message: str, process: subprocess.Popen[bytes] | None) -> None:
        super().__init__(message)
        self._process = process

    async def over(self) -> None:
        """Wait until the command has ended; Slurm's own timeouts see to that."""
        if self._process is not None:
            await asyncio.to_thread(self._process.wait)


class _TooLong(Exception):
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        super().__init__(process.pid)
        self.process = process


class SlurmRunner(LoggingConfigurable):
    """Runner of Slurm's commands, one at a time per thread, as this account or through sudo."""

    sudo = setting(
        List(Unicode(), default_value=["sudo", "-n", "-u", "{user}"]),
        """Prefix of a command that runs as another user; "{user}" is replaced by the login
        name.""",
        'c.SlurmRunner.sudo = ["/usr/bin/sudo", "-n", "-u", "{user}"]',
    )

    timeout = setting(
        Float(20.0),
        "Seconds after which a command is aborted. Slurm's own MessageTimeout is 10 s by default.",
        "c.SlurmRunner.timeout = 30",
    )

    bin_dir = setting(
        Unicode(""),
        "Directory of Slurm's commands; empty: they are found on PATH once.",
        'c.SlurmRunner.bin_dir = "/opt/slurm/bin"',
    )

    commands = setting(
        Dict(key_trait=Unicode(), value_trait=Unicode()),
        "Absolute paths of individual commands, if they are not all in one directory.",
        'c.SlurmRunner.commands = {"sbatch": "/opt/site/bin/sbatch"}',
    )

    slurm_conf = setting(
        Unicode(),
        """Path of slurm.conf, passed as SLURM_CONF. Empty: Slurm's own default. Default: this
        process's SLURM_CONF.""",
        'c.SlurmRunner.slurm_conf = "/etc/slurm/slurm.conf"',
    )

    concurrency = setting(
        Integer(8, min=1),
        "Maximum number of concurrent commands that run as users (submissions, cancellations).",
        "c.SlurmRunner.concurrency = 16",
    )

    # By command, for metrics: number of runs and failures, and total seconds.
    runs: Counter[str]
    failures: Counter[str]
    seconds: dict[str, float]

    def __init__(self, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.runs, self.failures, self.seconds = Counter(), Counter(), defaultdict(float)
        self._paths: dict[str, str] = {}
        # Queries have threads of their own, so that a rush of submissions does not delay them.
        self._people = ThreadPoolExecutor(self.concurrency, thread_name_prefix="slurm-people")
        self._questions = ThreadPoolExecutor(4, thread_name_prefix="slurm-questions")
        self._own_name = own_account()[1]
        self._asking: set[subprocess.Popen[bytes]] = set()  # running queries

    def _slurm_conf_default(self) -> str:
        return os.environ.get("SLURM_CONF", "")

    def close(self) -> None:
        """Shut down the threads. Running queries are killed: Python waits for every thread when it
        exits, and Slurm's commands retry for ten seconds and more when slurmctld is away."""
        for pool in (self._people, self._questions):
            pool.shutdown(wait=False, cancel_futures=True)
        for process in tuple(self._asking):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def path(self, command: str) -> str:
        """Return a command's absolute path. Raises SlurmUnavailable if it is not installed."""
        if command not in self._paths:
            path: str | None
            if command in self.commands:
                path = self.commands[command]
            elif self.bin_dir:
                path = str(Path(self.bin_dir) / command)
            else:
                search = f"{os.environ.get('PATH', '')}:{_SYSTEM_PATH}"
                path = command if command.startswith("/") else shutil.which(command, path=search)
            if not path:
                raise SlurmUnavailable(
                    f"The Slurm command '{command}' is not installed on this machine. "
                    "Install Slurm's client commands or set SlurmRunner.bin_dir."
                )
            self._paths[command] = path
        return self._paths[command]

    def environment(self) -> dict[str, str]:
        """Return the environment of every command: none of this process's secrets."""
        env = {
            name: os.environ[name]
            for name in ("PATH", "HOME", "USER", "LOGNAME")
            if os.environ.get(name)
        }
        env.setdefault("PATH", _SYSTEM_PATH)
        env["LANG"] = "C.UTF-8"
        if self.slurm_conf:
            env["SLURM_CONF"] = self.slurm_conf
        return env

    async def run(
        self,
        argv: Sequence[str],
        *,
        user: str | None = None,
        env: Mapping[str, str] | None = None,
        input: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the thread needs it, to kill
        check: bool = True,
    ) -> Output:
        """Run ``argv`` (its first word is a Slurm command) and return its output.

        ``user`` runs it through sudo unless this process is that user already; ``env`` is added to
        the small common environment; ``timeout`` is in seconds (default: the trait). With
        ``check``, a non-zero exit status raises SlurmUnavailable if Slurm does not answer,
        SlurmRefused with Slurm's own message if it refuses, ConfigurationError if sudo does not
        allow the command. Without ``check``, only a command that cannot be run or does not end in
        time raises (SlurmUnavailable, CommandTimedOut). The environment is never logged.
        """
        command = Path(argv[0]).name
        prefix: list[str] = []
        if user is not None and user != self._own_name:
            prefix = [word.replace("{user}", user) for word in self.sudo]
        full_argv = [*prefix, self.path(argv[0]), *argv[1:]]
        merged = self.environment()
        if user is None:
            merged["SLURM_TIME_FORMAT"] = "%s"  # else it would be exported into jobs
        merged.update(env or {})
        limit = self.timeout if timeout is None else timeout
        self.runs[command] += 1
        self.log.debug("Running %s", full_argv)
        started = time.monotonic()
        try:
            output = await asyncio.get_running_loop().run_in_executor(
                self._questions if user is None else self._people,
                _run,
                full_argv,
                merged,
                input,
                limit,
                self._asking if user is None else None,
            )
        except _TooLong as error:
            self.failures[command] += 1
            raise CommandTimedOut(
                f"Slurm did not answer within {limit:g} s ({command}).", error.process
            ) from None
        except OSError as error:
            self.failures[command] += 1
            raise SlurmUnavailable(
                f"'{full_argv[0]}' could not be started: {error.strerror or error}."
            ) from None
        finally:
            self.seconds[command] += time.monotonic() - started
        if output.returncode:
            self.failures[command] += 1
            if check:
                message = output.stderr if output.stderr.strip() else output.stdout[:2000]
                raise error_of(command, message, output.returncode, user)
        elif (
            check
            and command == "sacctmgr"
            and not output.stdout.strip()
            and unavailable(output.stderr)
        ):
            # sacctmgr 26.05 ends with status 0 when slurmdbd does not answer.
            self.failures[command] += 1
            raise error_of(command, output.stderr, output.returncode, user)
        return output


def _run(
    argv: list[str],
    env: dict[str, str],
    text: str | None,
    limit: float,
    running: set[subprocess.Popen[bytes]] | None,
) -> Output:
    """Run a command and wait for it (blocking). It has its own process group, so that Ctrl-C on
    the Hub does not end a submission, but is in the Hub's session, so that the kernel counts it as
    the Hub's (sched(7), "The autogroup feature"). While it runs, it is in ``running``."""
    with contextlib.ExitStack() as stack:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL if text is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd="/",
            process_group=0,
        )
        if running is not None:
            running.add(process)
            stack.callback(running.discard, process)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                stack.callback(_close, pipe)
        try:
            out, err = process.communicate(None if text is None else text.encode(), limit)
        except subprocess.TimeoutExpired:
            # A command run through sudo belongs to root or another user: then this is refused,
            # and it ends by Slurm's own MessageTimeout. Popen reaps it later.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(1)
            raise _TooLong(process) from None
    return Output(out.decode(errors="replace"), err.decode(errors="replace"), process.returncode)


def _close(pipe: object) -> None:
    with contextlib.suppress(OSError):
        pipe.close()  # type: ignore[attr-defined]


def own_account() -> tuple[int, str]:
    """Return uid and name of this process's account. Blocking: may ask the directory service."""
    uid = os.geteuid()
    try:
        return uid, pwd.getpwuid(uid).pw_name
    except KeyError:
        return uid, ""
