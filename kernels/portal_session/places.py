"""Where Jupyter keeps what belongs to one person in one environment: below PYTHONUSERBASE.

So one environment never sees what was installed or configured in another, and deleting that one
directory resets it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping
from pathlib import Path

# What a build adds to an image: the server's own, beside the framework's Python, whose programs
# people mean in terminals and notebooks.
ADDED = "/opt/data-scientist-portal"


def set_places(environ: MutableMapping[str, str]) -> None:
    """Fills in the variables of Jupyter, IPython and pip that are not set yet.

    ``PYTHONUSERBASE`` (an absolute path, made here with mode 700) decides; without it only the
    PATH is touched. Call it before Jupyter is imported.
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
            # Not etc/jupyter: pip writes there what switches server extensions on, and the
            # server cannot import them.
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
    path = [part for part in environ.get("PATH", os.defpath).split(os.pathsep) if part]
    environ["PATH"] = os.pathsep.join([*scripts, *(part for part in path if part not in scripts)])
