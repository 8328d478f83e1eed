"""Server of a session: ``python3 -I -m portal_session``.

Takes the options of ``jupyterhub-singleuser``; differs in its directories (`places`) and in that
it keeps running while the Hub does not answer at the start. ``-I`` keeps the user's packages,
PYTHONPATH and the working directory out of the server; kernels see all of them.
"""

from __future__ import annotations

from . import startup  # isort: skip - first: it records the start time

import os
import sys
from pathlib import Path
from typing import Any

from . import __version__
from .course import grades, together
from .home.welcome import welcome
from .imports import import_json_schema, import_singleuser
from .kernels.shell import set_shell
from .node import ask_no_node
from .places import set_places
from .port import asks_for_free_port

_KERNEL_SPECS = "portal_session.kernels.kernels.SessionKernelSpecs"


def main() -> None:
    """Run until the server ends. Exits with 72 and a sentence if JupyterLab is missing."""
    print(f"portal-session {__version__}", file=sys.stderr)
    welcome(os.environ, Path.home())
    set_places(os.environ)
    set_shell(os.environ)
    together.set_settings(os.environ)
    grades.set_settings(os.environ)
    try:
        import_json_schema()
        import jupyterlab  # noqa: F401

        singleuser = import_singleuser()
        from . import tossed
        from .course import guests

        of_room = together.arguments(os.environ)
    except ImportError as error:
        print(
            f"This environment cannot run a session: {error}. "
            "Install 'jupyterlab' and 'portal-session' into it.",
            file=sys.stderr,
        )
        raise SystemExit(72) from error
    guests.guard(os.environ)
    tossed.protect(os.environ)
    ask_no_node()
    startup.mark("imports")
    if asks_for_free_port():
        # The stock server waits for the Hub here, and exits when that is down for a minute. A
        # session outlives its Hub; versions are compared when the Hub answers to the port.
        singleuser.JupyterHubSingleUser.check_hub_version = _do_not_wait
    # Before the spawner's arguments, which take precedence.
    sys.argv[1:1] = [
        f"--ServerApp.kernel_spec_manager_class={_KERNEL_SPECS}",
        "--LabApp.cache_files=True",  # the URLs of an extension's files hold their hash
        *of_room,
    ]
    singleuser.main()


async def _do_not_wait(server: Any) -> None:
    pass


if __name__ == "__main__":
    main()
