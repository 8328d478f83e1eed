"""Paths of the files that come with the portal: templates, static, deploy, kernels.

In a checkout they stand beside the package; in an installed wheel under
``share/data-scientist-portal`` of the environment. The checkout wins, since an editable
install copies shared data once and goes stale.
"""

from __future__ import annotations

import sys
from pathlib import Path

from .errors import ConfigurationError

_SHARE = "share/data-scientist-portal"


def data_path(name: str) -> Path:
    """Return the directory ``name`` ("templates", "static", "deploy", "kernels").

    Raises ConfigurationError if neither place has it.
    """
    beside = Path(__file__).resolve().parent.parent / name
    if beside.is_dir() and (beside.parent / "pyproject.toml").exists():
        return beside
    shared = Path(sys.prefix) / _SHARE / name
    if shared.is_dir():
        return shared
    raise ConfigurationError(
        f"The portal's '{name}' files are missing: looked in {beside} and {shared}. "
        "Install the portal again."
    )
