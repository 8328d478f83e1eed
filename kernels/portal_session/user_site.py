"""User's own packages in a virtual environment, which would switch them off.

``pip install`` in an environment that its user cannot write to falls back to the user site, which
is below PYTHONUSERBASE: one directory for each person and environment. A virtual environment
without the system's packages ignores the user site: pip would refuse, and Python would find
nothing there. `python_start` calls `enable` in every Python of the environment; it costs a fraction
of a millisecond.
"""

from __future__ import annotations

import os
import site
import sys


def enable() -> None:
    """Put the user site first on ``sys.path``, before the environment's own packages.

    Does nothing outside a virtual environment, where Python does it by itself, and for
    ``python -I`` and ``-s``, which is how the session's server runs: a person's packages reach
    kernels and terminals, not the server.
    """
    flags = sys.flags
    if sys.prefix == sys.base_prefix or flags.isolated or flags.no_user_site:
        return
    if site.ENABLE_USER_SITE is not False or os.environ.get("PYTHONNOUSERSITE"):
        return
    # As site.check_enableusersite() has it: not for programs with the rights of somebody else.
    if os.getuid() != os.geteuid() or os.getgid() != os.getegid():
        return
    site.ENABLE_USER_SITE = True  # what pip looks at
    packages = site.getusersitepackages()
    # pathlib would cost every Python here more than the rest of this does.
    if not os.path.isdir(packages) or packages in sys.path:  # noqa: PTH112
        return
    before = list(sys.path)
    site.addsitedir(packages)
    added = [path for path in sys.path if path not in before]
    # After the standard library, before the environment's packages, as outside of one.
    own = next((i for i, path in enumerate(before) if path.startswith(sys.prefix + os.sep)), None)
    at = len(before) if own is None else own
    sys.path[:] = before[:at] + added + before[at:]
