"""Console script ``portal-tensorboard``: TensorBoard on a Unix socket, below the session's path,
which ends with the session.

The portal's page starts it with PORTAL_TENSORBOARD_PLACE; without that (from a notebook's
``%tensorboard``, which finds it by TENSORBOARD_BINARY, or a terminal) it claims a place itself. It
takes TensorBoard's own options. It runs as any program of the user does, with the packages that
the user installed: plugins work, and ``%pip install tensorboard`` adds a missing TensorBoard.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ..programs.runtime import Place, Runtime
from .folders import FolderRefused
from .memory import memory_limit
from .watch import Watch

MISSING = (
    "TensorBoard is not installed in this environment. Run '%pip install tensorboard' in a "
    "notebook of the session, then open it again."
)


def main() -> None:
    """Run the console script. Exits with 0 after a stop, with 3 if TensorBoard is missing."""
    base = os.environ.get("PORTAL_TENSORBOARD_USERBASE")
    if base and "PYTHONUSERBASE" not in os.environ:
        # TensorBoard's magic drops it, and this Python has set up its search path without.
        environ = {**os.environ, "PYTHONUSERBASE": base}
        argv = [sys.executable, "-m", "portal_session.tensorboard.program", *sys.argv[1:]]
        os.execve(sys.executable, argv, environ)  # noqa: S606 - this same program
    named = os.environ.get("PORTAL_TENSORBOARD_PLACE")
    directory = os.environ.get("PORTAL_TENSORBOARD_DIRECTORY")
    if not directory or not Path(directory).is_dir():
        sys.exit("ERROR: portal-tensorboard only runs in a session of the portal.")
    runtime = Runtime(Path(directory))
    place = Place(Path(named)) if named else runtime.claim()
    watch = Watch(place, runtime, memory_limit(os.environ))
    watch.start()
    try:
        _run(place, watch, from_notebook=not named)
    except SystemExit as end:
        if end.code and named:
            watch.end(watch.reason or "TensorBoard ended. See the last lines of its log.")
        else:  # it was stopped, or the notebook shows what it printed
            watch.stop()
            place.remove()
        raise
    except BaseException as error:
        watch.end(f"TensorBoard ended with an error: {error}")
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


if __name__ == "__main__":
    main()
