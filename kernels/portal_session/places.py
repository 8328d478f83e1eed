"""Directories of Jupyter for one person in one environment, below PYTHONUSERBASE.

An environment never sees what was installed or configured in another, and deleting that one
directory resets it.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import MutableMapping
from pathlib import Path

from .home.damaged_files import set_aside_history

# Where a folder that this account cannot use is still searched.
_SEARCHED = {"JUPYTER_DATA_DIR": "JUPYTER_PATH", "JUPYTER_CONFIG_DIR": "JUPYTER_CONFIG_PATH"}
_RUNTIME = "JUPYTER_RUNTIME_DIR"  # has the keys of kernels
# Without any configuration, a server does not load the extension that tells the Hub its port.
_NO_CONFIG = "JUPYTER_NO_CONFIG"

# Prefix of the server's own Python, added to an image by a build. Terminals and notebooks use the
# framework's Python instead.
ADDED = "/opt/data-scientist-portal"


def set_places(environ: MutableMapping[str, str]) -> None:
    """Set the variables of Jupyter, IPython and pip that are not set yet, or to what this account
    cannot use: images and prologs of nodes set them for other accounts.

    They follow from ``PYTHONUSERBASE`` (an absolute path, created here with mode 700); without it,
    only PATH is changed. A damaged history of IPython is set aside. Call this before Jupyter is
    imported.
    """
    environ.pop(_NO_CONFIG, None)
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
            if isinstance(value, Path):
                _set_folder(environ, name, str(value))
            else:
                environ.setdefault(name, value)
        set_aside_history(environ)
    path = [part for part in environ.get("PATH", os.defpath).split(os.pathsep) if part]
    environ["PATH"] = os.pathsep.join([*scripts, *(part for part in path if part not in scripts)])


def _set_folder(environ: MutableMapping[str, str], name: str, default: str) -> None:
    """Set the variable ``name`` to ``default``, unless it has a folder that can be used."""
    given = environ.get(name, "")
    if given and _usable(Path(given), private=name == _RUNTIME):
        return
    environ[name] = default
    if given:
        print(
            f"{name}={given}: this account cannot use that folder. {default} is used instead.",
            file=sys.stderr,
        )
        if name in _SEARCHED:
            others = environ.get(_SEARCHED[name], "")
            environ[_SEARCHED[name]] = os.pathsep.join([*filter(None, [others]), given])


def _usable(folder: Path, *, private: bool) -> bool:
    """Return True if ``folder`` exists or could be created, and can be written to; if ``private``,
    by this account alone."""
    if not folder.is_absolute():
        return False
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except (OSError, ValueError):
        return False
    is_own = status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return os.access(folder, os.W_OK | os.X_OK) and (is_own or not private)
