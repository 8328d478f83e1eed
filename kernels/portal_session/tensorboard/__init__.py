"""TensorBoard in a session: pick folders, list, open and stop TensorBoards.

`program` is the process, `running` starts and stops it, `handlers` has the page and its API. Their
directory, processes and proxy are those of all programs of a session (`programs`). The server
extension below adds next to nothing to a session's start: heavy modules are imported on first use.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import sys
import threading
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

from .memory import memory_limit
from .running import PATH


def _load_jupyter_server_extension(app: Any) -> None:
    """Load this server extension. ``app`` is jupyter_server's ServerApp."""
    from ..programs.runtime import Runtime, remove_leftovers
    from .handlers import add_handlers, open_with_it
    from .running import TensorBoards

    try:
        runtime = Runtime.make(os.environ)
    except OSError as error:
        app.log.warning("TensorBoard is not available in this session. %s", error)
        return
    base_url = app.web_app.settings["base_url"]
    prepare_notebooks(os.environ, runtime.path, base_url)
    boards = TensorBoards(runtime, base_url, app.root_dir, os.environ)
    atexit.register(boards.close)
    threading.Thread(target=remove_leftovers, args=(dict(os.environ),), daemon=True).start()
    add_handlers(app.web_app, boards)
    folders = only_purpose(os.environ)
    if folders is not None:
        boards.start_all(folders, app.log)
        open_with_it(app.web_app, boards)


def prepare_notebooks(environ: MutableMapping[str, str], directory: Path, base_url: str) -> None:
    """Make TensorBoard's own ``%tensorboard`` start our program and show it through the proxy
    (tensorboard/manager.py and tensorboard/notebook.py read these). Kernels inherit it."""
    environ["PORTAL_TENSORBOARD_DIRECTORY"] = str(directory)
    environ["PORTAL_TENSORBOARD_PREFIX"] = base_url + PATH
    # Kernels do not see how much memory the job has (`kernels.environment`).
    environ["PORTAL_TENSORBOARD_MEMORY"] = str(memory_limit(environ))
    if "PYTHONUSERBASE" in environ:
        # TensorBoard takes this out of its child's environment.
        environ["PORTAL_TENSORBOARD_USERBASE"] = environ["PYTHONUSERBASE"]
    program = shutil.which("portal-tensorboard", path=str(Path(sys.executable).parent))
    program = program or shutil.which("portal-tensorboard")
    if program:
        environ["TENSORBOARD_BINARY"] = program
        environ["TENSORBOARD_PROXY_URL"] = f"{base_url}{PATH}%PORT%/"


def only_purpose(environ: MutableMapping[str, str]) -> list[str] | None:
    """Return the folders of a session that serves TensorBoard alone (PORTAL_TENSORBOARD, a JSON
    list of absolute paths); None for every other session."""
    try:
        named = json.loads(environ.get("PORTAL_TENSORBOARD", ""))
    except ValueError:
        return None
    if not isinstance(named, list) or not named:
        return None
    return [path for path in named if isinstance(path, str)]
