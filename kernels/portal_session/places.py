"""Directories of Jupyter for one person in one environment, below PYTHONUSERBASE.

An environment never sees what was installed or configured in another, and deleting that one
directory resets it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping
from pathlib import Path

from .home.damaged_files import set_aside_history

# Prefix of the server's own Python, added to an image by a build. Terminals and notebooks use the
# framework's Python instead.
ADDED = "/opt/data-scientist-portal"


def set_places(environ: MutableMapping[str, str]) -> None:
    """Set the variables of Jupyter, IPython and pip that are not set yet.

    They follow from ``PYTHONUSERBASE`` (an absolute path, created here with mode 700); without it,
    only PATH is changed. A damaged history of IPython is set aside. Call this before Jupyter is
    imported.
    """
    own = sys.prefix != sys.base_prefix and sys.prefix != ADDED
    scripts = [str(Path(sys.executable).parent)] if own else []
    base = environ.get("PYTHONUSERBASE", "")
    if base:
        root = Path(base)
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        scripts.insert(0, str(root / "bin"))
        defaults = {
            # The environment's own kernels and extensions win over the person's.
            "JUPYTER_PREFER_ENV_PATH": "1",
            # Where pip puts kernelspecs and lab extensions for PYTHONUSERBASE.
            "JUPYTER_DATA_DIR": root / "share/jupyter",
            # Not etc/jupyter: pip's packages enable their server extensions there, which the
            # server cannot import.
            "JUPYTER_CONFIG_DIR": root / "jupyter",
            "JUPYTER_RUNTIME_DIR": root / "jupyter/runtime",
            # Theme and shortcuts are the person's, in every environment.
            "JUPYTERLAB_SETTINGS_DIR": Path.home() / ".jupyter/lab/user-settings",
            "IPYTHONDIR": root / "ipython",
            # Images of newer distributions refuse even `pip install --user` (PEP 668).
            "PIP_BREAK_SYSTEM_PACKAGES": "1",
        }
        for name, value in defaults.items():
            environ.setdefault(name, str(value))
        set_aside_history(environ)
    path = [part for part in environ.get("PATH", os.defpath).split(os.pathsep) if part]
    environ["PATH"] = os.pathsep.join([*scripts, *(part for part in path if part not in scripts)])
