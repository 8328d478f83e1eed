"""Answers in place of Node.js at the start of the server, where each question would launch it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

_SETTINGS = {"npm_config_prefix", "npm_config_userconfig", "npm_config_globalconfig"}


def ask_no_node() -> None:
    """Answer for yarn to JupyterLab (4.6) and for npm to jupyter-lsp (2.3) in this process.

    Only a build uses JupyterLab's default registry of npm packages. jupyter-lsp looks for language
    servers where npm installs globally: beside npm itself, unless another prefix is configured
    (npm-prefix(1), npmrc(5)); then npm is asked.
    """
    from jupyterlab import commands

    commands._yarn_config = lambda logger: {"yarn config": {}, "npm config": {}}
    with contextlib.suppress(ImportError):  # not in every environment
        from jupyter_lsp.types import LanguageServerManagerAPI

        asked = LanguageServerManagerAPI._npm_prefix

        def prefix(manager: Any, npm: str) -> Any:
            own = Path(npm).parent.parent
            return asked(manager, npm) if _is_set(own) else str(own)

        LanguageServerManagerAPI._npm_prefix = prefix


def _is_set(own: Path) -> bool:
    if any(name.lower() in _SETTINGS for name in os.environ):
        return True
    for file in (Path.home() / ".npmrc", own / "etc/npmrc"):
        with contextlib.suppress(OSError):
            lines = file.read_text(errors="replace").splitlines()
            if any(line.partition("=")[0].strip() == "prefix" for line in lines):
                return True
    return False
