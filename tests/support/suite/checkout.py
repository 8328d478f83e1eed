"""Programs run as processes of their own, with the source of this checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from portal.__main__ import main

ROOT = Path(__file__).resolve().parents[3]
# pytest.ini of a small suite that a test runs: without the plugins that this suite leaves out.
PYTEST_INI = "[pytest]\naddopts = -p no:schemathesis -p no:anyio -p no:hypothesispytest\n"


def run(*argv: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run ``argv`` in the folder ``cwd`` to its end, at most two minutes; return what it said."""
    return subprocess.run(
        argv,
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )


def portal(*words: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run the command ``portal`` with ``words`` as ``run`` does."""
    return run(sys.executable, "-m", "portal", *words, cwd=cwd)


def portal_forked(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command ``portal`` with ``words`` as ``forked`` does."""
    sys_argv = ["portal", *map(str, words)]

    def command() -> None:
        sys.argv = sys_argv
        main()

    return forked(command, cwd)


def forked(work: Callable[[], object], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Do ``work`` as a program of its own, in a copy of this process, which has imported it
    already: that takes a second or two."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            _become(work, cwd, out.fileno(), err.fileno())
        _, status = os.waitpid(child, 0)
        for file in (out, err):
            file.seek(0)
        said = (out.read().decode(), err.read().decode())
    return subprocess.CompletedProcess([], os.waitstatus_to_exitcode(status), *said)


def _become(work: Callable[[], object], cwd: Path, out: int, err: int) -> NoReturn:
    """Do ``work`` in this process, and end it."""
    code: object = 1
    try:
        os.chdir(cwd)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, (descriptor, name) in enumerate([(out, "stdout"), (err, "stderr")], 1):
            os.dup2(descriptor, number)
            setattr(sys, name, open(number, "w", closefd=False))  # noqa: SIM115
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
        work()
        code = 0
    except SystemExit as end:
        code = end.code
        if isinstance(code, BaseException | str):
            print(code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))
