"""Output of a vendor's GPU programs, run from the session's server."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping

LARGEST = 4 * 1024 * 1024  # bytes of one output
PATIENCE = 20.0  # seconds
# Folders of a vendor's programs that may be missing in PATH.
PLACES = ("/opt/rocm/bin",)
# Left out: PATH may lead to a program of the person's own, which must not get the session's
# secrets; and the vendor's programs, written in Python, must not load the person's packages.
_OWN = ("JUPYTER", "JPY_", "PORTAL_", "APPTAINERENV_", "SINGULARITYENV_", "PYTHON")


def program_output(argv: list[str], environ: Mapping[str, str]) -> str:
    """Return what ``argv`` prints on standard output, whatever its exit status.

    "" if the program is missing, takes longer than PATIENCE or prints more than LARGEST. Raises
    nothing.
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
            output = stream.read(LARGEST + 1)
        if len(output) > LARGEST:
            give_up()
        process.wait()
    finally:
        timer.cancel()
    return "" if late.is_set() else output.decode("utf-8", "replace")
