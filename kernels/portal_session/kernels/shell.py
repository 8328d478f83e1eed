"""The shell of a session's terminals: the person's, with the programs of the environment.

jupyter_server starts a login shell, whose /etc/profile sets PATH anew: `python`, `pip` and
`jupyter` would be the machine's then, and what that `pip` installs would break the environment's.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, MutableMapping
from pathlib import Path

RC = Path(__file__).with_name("shell.sh")
_PLAIN = frozenset({"sh", "dash", "ash", "bash", "rbash"})


def set_shell(environ: MutableMapping[str, str]) -> None:
    """Sets SHELL to a shell that is here: the account's own may be none of a container's."""
    environ["SHELL"] = _own(environ) or shutil.which("bash") or "/bin/sh"


def shell_command(environ: Mapping[str, str]) -> list[str]:
    """The argv of a terminal: bash where there is one, or the person's zsh, fish or tcsh, which
    reads no login files then."""
    own = _own(environ)
    if own and Path(own).name not in _PLAIN:
        return [own]
    bash = shutil.which("bash")
    return [bash, "--rcfile", str(RC)] if bash else ["/bin/sh"]


def _own(environ: Mapping[str, str]) -> str:
    """The account's shell; "" where it is not here, or lets nobody in."""
    own = Path(environ.get("SHELL", ""))
    lets_in = own.is_absolute() and own.name not in ("nologin", "false", "true")
    return str(own) if lets_in and os.access(own, os.X_OK) else ""
