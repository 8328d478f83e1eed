"""Ranks from a cell: ``from portal_train import train; loss = train(fit, nodes=2, gpus=4)``.

It starts a run (``portal-run``) whose script calls the function once in each rank, prints what rank
0 prints, and returns what the function returns there. The function travels by cloudpickle, in the
script itself, which the portal freezes and compares with a digest. This module is found as
`portal_metrics` is.
"""

import base64
import contextlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

_ATTEMPT = "PORTAL_ATTEMPT"  # path of the folder of this attempt of the point
_MOST = 8 * 1024 * 1024  # bytes of the function, with what it refers to
_LOOKS = 0.5  # seconds between two looks at the run's files
_ASKS = 15.0  # seconds between two questions to the portal, which knows of what left no files
_SCRIPT = """# Made by portal_train for a function of a notebook.
import portal_train

portal_train.execute({folder!r}, {text!r})
"""


class RankError(RuntimeError):
    """Error of a rank, or of the run: ``str()`` is the point's message."""


def train(function, *arguments, name="", **resources):  # type: ignore[no-untyped-def]
    """Return what ``function(*arguments)`` returns in rank 0 of a run with these ``resources``:
    ``nodes``, ``ranks`` on each, ``gpus``, ``cpus``, ``memory``, ``time`` and the other options of
    portal-run. Raises the error of the rank that failed first, with a RankError as its cause, and
    RankError if the run does not start or ends otherwise. An interrupt stops the run."""
    cloudpickle = _cloudpickle()
    content = cloudpickle.dumps((function, arguments))
    if len(content) > _MOST:
        raise ValueError(
            f"The function and what it refers to have {len(content) / 1024**2:.0f} MiB; "
            f"{_MOST // 1024**2} are possible. Write the data to a file, and load that in the "
            "function."
        )
    folder = Path.home() / ".portal" / "train"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    named = re.sub(r"[^A-Za-z0-9_-]+", "-", name or getattr(function, "__name__", "")).strip("-")
    script = folder / f"{named[:40] or 'train'}.py"
    text = base64.b85encode(content).decode()
    script.write_text(_SCRIPT.format(folder=str(Path.cwd()), text=text))
    options = [f"--{key.replace('_', '-')}={value}" for key, value in resources.items()]
    said = _portal_run(str(script), *options)
    found = re.search(r"^Run '(.+?)':.*?^Results: (.+?)$", said, re.MULTILINE | re.DOTALL)
    if found is None:
        raise RankError(said.strip())
    run, place = found[1], Path(found[2])
    try:
        return _followed(run, place, cloudpickle)
    except KeyboardInterrupt:
        with contextlib.suppress(RankError):
            print(_portal_run("stop", run), file=sys.stderr)
        raise


def execute(folder, text):  # type: ignore[no-untyped-def]
    """Call the function in this rank; keep its result, or its error, for the cell."""
    cloudpickle = _cloudpickle()
    with contextlib.suppress(OSError):  # a container need not see it
        os.chdir(folder)
    sys.path.insert(0, folder)
    attempt, rank = Path(os.environ[_ATTEMPT]), os.environ.get("RANK", "0")
    function, arguments = cloudpickle.loads(base64.b85decode(text))
    try:
        result = function(*arguments)
        if rank == "0":
            _keep(attempt / "result.pickle", cloudpickle.dumps(result))
    except BaseException as error:
        with contextlib.suppress(Exception):
            _keep(attempt / f"error-{rank}.pickle", cloudpickle.dumps(error))
        raise


def _followed(run, place, cloudpickle):  # type: ignore[no-untyped-def]
    """Print what the newest attempt prints, to the end of the run; return the result."""
    attempt, at, asked = None, 0, time.monotonic()
    while True:
        newest = max(place.glob("0000*/"), key=_number, default=None)
        if newest != attempt:
            attempt, at = newest, 0
        manifest = {}
        if attempt is not None:
            with contextlib.suppress(OSError, ValueError):
                manifest = json.loads((attempt / "manifest.json").read_text())
            at = _print_from(attempt / "output.log", at)
        state = manifest.get("state")
        if state == "succeeded":
            return cloudpickle.loads(_own(attempt / "result.pickle"))
        if state == "failed":
            raise _error_of(attempt, str(manifest.get("message")), cloudpickle)
        if time.monotonic() - asked > _ASKS:
            asked = time.monotonic()
            shown = _portal_run("show", run)
            if re.search(r"^1 (failed|lost)", shown, re.MULTILINE):
                raise RankError(shown.strip().rpartition("\n")[2])
        time.sleep(_LOOKS)


def _error_of(attempt, message, cloudpickle):  # type: ignore[no-untyped-def]
    """Return the error to raise for a point that failed with this message."""
    about = RankError(message)
    rank = re.match(r"Rank ([0-9]+) ", message)
    try:
        error = cloudpickle.loads(_own(attempt / f"error-{rank[1] if rank else 0}.pickle"))
    except Exception:
        return about
    if not isinstance(error, Exception):
        return about
    error.__cause__ = about
    return error


def _number(folder):  # type: ignore[no-untyped-def]
    ending = re.fullmatch(r"0000(?:-([0-9]+))?", folder.name)
    return int(ending[1] or 1) if ending else 0


def _print_from(path, at):  # type: ignore[no-untyped-def]
    """Print a file from the byte ``at`` on; return where it ends."""
    try:
        with path.open("rb") as file:
            file.seek(at)
            part = file.read()
    except OSError:
        return at
    if part:
        sys.stdout.write(part.decode(errors="replace"))
        sys.stdout.flush()
    return at + len(part)


def _keep(path, content):  # type: ignore[no-untyped-def]
    new = path.with_name(f".{path.name}.new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    new.replace(path)


def _own(path):  # type: ignore[no-untyped-def]
    """Return the content of a file that only this user may write: loading it executes what it says.
    Raises OSError, RankError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o022:
            raise RankError(f"{path} is not a file that only you may write, so it is not read.")
        return file.read()


def _portal_run(*argv):  # type: ignore[no-untyped-def]
    """Return what ``portal-run`` prints. Raises RankError."""
    program = shutil.which("portal-run")
    if program is None:
        raise RankError("train() works in a session of the portal with JupyterLab.")
    done = subprocess.run([program, *argv], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RankError(done.stderr.strip().rpartition("\n")[2] or "portal-run failed.")
    return done.stdout


def _cloudpickle():  # type: ignore[no-untyped-def]
    try:
        import cloudpickle
    except ModuleNotFoundError:
        raise RankError(
            "This environment lacks the Python package 'cloudpickle', which sends a function to "
            "the ranks. Install it with %pip install cloudpickle, and restart the kernel."
        ) from None
    return cloudpickle
