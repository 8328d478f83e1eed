"""Runs a program that says something of GPUs, from the session's server."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping

LARGEST = 4 * 1024 * 1024  # bytes of one answer
PATIENCE = 20.0  # seconds
# Where a vendor's programs are that PATH does not name.
PLACES = ("/opt/rocm/bin",)
# The person's PATH may lead to a program of their own, and the session's secrets are not for those;
# nor are the person's packages for the vendor's programs, which are Python's.
_OWN = ("JUPYTER", "JPY_", "PORTAL_", "APPTAINERENV_", "SINGULARITYENV_", "PYTHON")


def program_output(argv: list[str], environ: Mapping[str, str]) -> str:
    """Return what ``argv`` prints on standard output, whatever its exit status.

    "" where the program is not there, takes longer than PATIENCE or prints more than LARGEST.
    Raises nothing.
    """
    places = os.pathsep.join([environ.get("PATH", os.defpath), *PLACES])
    program = shutil.which(argv[0], path=places)
    if program is None:
        return ""
    env = {name: value for name, value in environ.items() if not name.startswith(_OWN)}
    try:
        process = subprocess.Popen(
            [program, *argv[1:]],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return ""
    assert process.stdout is not None
    late = threading.Event()

    def give_up() -> None:
        late.set()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(PATIENCE, give_up)
    timer.daemon = True
    timer.start()
    try:
        with process.stdout as stream:
            answer = stream.read(LARGEST + 1)
        if len(answer) > LARGEST:
            give_up()
        process.wait()
    finally:
        timer.cancel()
    return "" if late.is_set() else answer.decode("utf-8", "replace")
