"""Programs of a session, behind its login: what it opens instead of JupyterLab, what it can open
beside it, and, in `tensorboard`, its TensorBoards.

`process` starts and ends them, `runtime` is the private directory for their sockets, `program` is
a program that the portal has defined, `proxy` connects the browser to any of them, and `late`
imports that on first use. A session without programs loads none of it.
"""

from __future__ import annotations

import os
from typing import Any


def _load_jupyter_server_extension(app: Any) -> None:
    """Load this server extension. ``app`` is jupyter_server's ServerApp."""
    from .definition import beside, instead

    first, others = instead(os.environ), beside(os.environ)
    if first is None and not others:
        return
    from .handlers import add_handlers

    add_handlers(app, first, others)
