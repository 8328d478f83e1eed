"""``portal-tensorboard``: TensorBoard on a Unix socket, below the session's path, with an end.

The portal's page starts it with PORTAL_TENSORBOARD_PLACE; without that (from a notebook's
``%tensorboard``, which finds it by TENSORBOARD_BINARY, or a terminal) it claims a place itself.
It takes TensorBoard's own options. It runs as any program of the user does, with the packages
that the user installed: plugins work, and ``%pip install tensorboard`` mends what is missing.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from . import record
from .folders import FolderRefused, is_below, resolve, roots_of, walk
from .memory import memory_limit
from .runtime import Place, Runtime
from .watch import Watch

MISSING = (
    "TensorBoard is not installed in this environment. Run '%pip install tensorboard' in a "
    "notebook of the session, then open it again."
)
LEAST_PAUSE = 5.0  # seconds between two looks for new data: TensorBoard's own default


def main() -> None:
    """The console script. Exits with 0 after a stop, with 3 when TensorBoard is missing."""
    base = os.environ.get("PORTAL_TENSORBOARD_USERBASE")
    if base and "PYTHONUSERBASE" not in os.environ:
        # TensorBoard's magic drops it, and this Python has already looked for packages without.
        environ = {**os.environ, "PYTHONUSERBASE": base}
        argv = [sys.executable, "-m", "portal_session.tensorboard.program", *sys.argv[1:]]
        os.execve(sys.executable, argv, environ)  # noqa: S606 - this very program
    named = os.environ.get("PORTAL_TENSORBOARD_PLACE")
    directory = os.environ.get("PORTAL_TENSORBOARD_DIRECTORY")
    if not directory or not Path(directory).is_dir():
        sys.exit("ERROR: portal-tensorboard runs in a session of the portal.")
    runtime = Runtime(Path(directory))
    place = Place(Path(named)) if named else runtime.claim()
    watch = Watch(place, runtime, memory_limit(os.environ))
    watch.start()
    try:
        _run(place, watch, from_notebook=not named)
    except SystemExit as end:
        if end.code and named:
            watch.end(watch.reason or "It ended: the last lines of its log say why.")
        else:  # it was stopped, or the notebook shows what it printed
            watch.stop()
            place.remove()
        raise
    except BaseException as error:
        watch.end(f"It ended with an error: {error}")
        raise


def _run(place: Place, watch: Watch, *, from_notebook: bool) -> None:
    try:
        from absl import app
        from tensorboard import default, main_lib
        from tensorboard.plugins.base_plugin import FlagsError

        from .board import make_board
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("tensorboard", "absl"):
            raise
        watch.end(MISSING)
        print(f"ERROR: {MISSING}", file=sys.stderr)
        raise SystemExit(3) from error
    main_lib.global_init()
    board = make_board(place, watch, default.get_plugins(), from_notebook=from_notebook)
    try:
        app.run(board.main, flags_parser=board.configure)
    except (FlagsError, FolderRefused) as error:
        watch.end(str(error))
        print(f"ERROR: {error}", file=sys.stderr)
        raise SystemExit(1) from error


def check_folders(flags: Any) -> list[str]:
    """The folders that TensorBoard's options name, which must be below the user's roots.

    Addresses (``s3://…``) are TensorBoard's affair. Raises FolderRefused.
    """
    roots = roots_of(os.environ)
    named = [flags.logdir] if flags.logdir else (flags.logdir_spec or "").split(",")
    folders = []
    for name in filter(None, named):
        # In a specification, "run:/path" gives the run a name (data_ingester.py).
        path = name.partition(":")[2] if not flags.logdir and ":/" in name[1:] else name
        if "://" in name:
            folders.append(name)
            continue
        try:
            folders.append(resolve(path, roots, str(Path.cwd())))
        except FolderRefused:
            # It may come later: TensorBoard waits for it.
            real = os.path.realpath(os.path.expanduser(path))  # noqa: PTH111
            if os.path.lexists(real) or not is_below(real, roots):
                raise
            folders.append(real)
    return folders


def describe(place: Place, folders: list[str]) -> None:
    """Writes down what was started here, where the portal's page did not."""
    names = [Path(folder).name or folder for folder in folders]
    about = {
        "name": ", ".join(names[:3]) or "TensorBoard",
        "folders": folders,
        "started": time.time(),
        "origin": "notebook",
    }
    record.write(place.about, about)


def guard_walk(watch: Watch) -> None:
    """Exchanges TensorBoard's walk through folders, which follows every link, for ours."""
    from tensorboard.backend.event_processing import io_wrapper

    roots = roots_of(os.environ)
    is_events = io_wrapper.IsSummaryEventsFile
    counted: set[str] = set()

    def guarded_walk(top: str) -> Any:
        for folder, files in walk(top, roots, watch.skipped):
            events = [path for path in files if "tfevents" in os.path.basename(path)]  # noqa: PTH119
            for path in events:
                if path not in counted:
                    counted.add(path)
                    watch.found(path)
            yield folder, events

    def guarded_events(path: str) -> bool:
        if os.path.islink(path) and not is_below(os.path.realpath(path), roots):  # noqa: PTH114
            watch.skipped(path)
            return False
        return bool(is_events(path))

    io_wrapper.ListRecursivelyViaWalking = guarded_walk
    io_wrapper.IsSummaryEventsFile = guarded_events


if __name__ == "__main__":
    main()
