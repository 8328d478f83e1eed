"""Shell of a session's terminals: the person's own, with the programs of the environment.

jupyter_server starts a login shell, whose /etc/profile resets PATH: `python`, `pip` and `jupyter`
would then be the machine's, and what that `pip` installs would break the environment's.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, MutableMapping
from pathlib import Path

RC = Path(__file__).with_name("shell.sh")
_PLAIN = frozenset({"sh", "dash", "ash", "bash", "rbash"})


def set_shell(environ: MutableMapping[str, str]) -> None:
    """Set SHELL to a shell that exists here: a container may lack the account's own."""
    environ["SHELL"] = _own(environ) or shutil.which("bash") or "/bin/sh"


def shell_command(environ: Mapping[str, str]) -> list[str]:
    """Return the argv of a terminal: bash if it exists, or the person's zsh, fish or tcsh, which
    then reads no login files."""
    own = _own(environ)
    if own and Path(own).name not in _PLAIN:
        return [own]
    bash = shutil.which("bash")
    return [bash, "--rcfile", str(RC)] if bash else ["/bin/sh"]


def _own(environ: Mapping[str, str]) -> str:
    """Return the account's shell; "" if it does not exist here, or allows no login."""
    own = Path(environ.get("SHELL", ""))
    lets_in = own.is_absolute() and own.name not in ("nologin", "false", "true")
    return str(own) if lets_in and os.access(own, os.X_OK) else ""
