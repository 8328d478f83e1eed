"""Program that a session opens instead of JupyterLab. Other sessions do not load it."""

from __future__ import annotations

import atexit
import os
from typing import Any


def _load_jupyter_server_extension(app: Any) -> None:
    """Load this server extension. ``app`` is jupyter_server's ServerApp."""
    from .program import PATH, Program, told_of

    definition = told_of(os.environ)
    if definition is None:
        return
    from ..tensorboard.runtime import Runtime
    from .program_proxy import add_handlers

    base = app.web_app.settings["base_url"] + PATH
    program = Program(definition, Runtime.make(os.environ).path, base, app.root_dir, os.environ)
    atexit.register(program.stop)
    program.start()
    add_handlers(app.web_app, program)
