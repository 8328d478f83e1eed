"""Bash kernel of an image without Python: bash_kernel runs on the node, and its bash in the
container.

Run as ``python -I -m portal_session.kernels.container_bash -f FILE``. bash_kernel starts "bash" in
two places, with pexpect and with check_output; both get Apptainer's argv instead. The version that
this was written for is pinned in pyproject.toml.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .bash import launch
from .container import Container

_RC = "bashrc.sh"  # pexpect's; it sets a prompt that pexpect can wait for


def main() -> None:
    """Run until the kernel ends."""
    container = Container.from_environ(os.environ)
    if container is None:
        sys.exit("This session has no container.")
    import pexpect
    from bash_kernel import kernel

    env = container.environment(os.environ)
    at = _rc_file(Path(pexpect.__file__).with_name(_RC), container)
    pexpect.spawn = _spawn(pexpect.spawn, container, env, at)
    kernel.check_output = _output(kernel.check_output, container, env)
    # This program runs on the node: it must not read the person's settings of IPython or modules
    # in the notebook's folder, where the container writes too.
    with tempfile.TemporaryDirectory(prefix="portal-bash-") as folder:
        os.environ["IPYTHONDIR"] = folder
        launch(ignore_cwd=True)


def _rc_file(source: Path, container: Container) -> str:
    """Copy pexpect's file to where the container sees it, beside the connection files; return its
    path."""
    folder = Path(os.environ.get("JUPYTER_RUNTIME_DIR", ""))
    if not folder.is_absolute() or not container.has(str(folder)):
        folder = Path.home() / ".portal"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = folder / f".{_RC}.{os.getpid()}"
    shutil.copyfile(source, new)
    target = folder / _RC
    new.replace(target)
    return str(target)


def _spawn(
    spawn: Callable[..., Any], container: Container, env: dict[str, str], rc: str
) -> Callable[..., Any]:
    def start(command: str, args: Any = (), **more: Any) -> Any:
        first, *rest = container.command([command, "--rcfile", rc], str(Path.cwd()))
        return spawn(first, rest, **{**more, "env": env, "timeout": 120})

    return start


def _output(
    check_output: Callable[..., Any], container: Container, env: dict[str, str]
) -> Callable[..., Any]:
    def output(argv: list[str], **more: Any) -> Any:
        return check_output(container.command(argv), **{**more, "env": env})

    return output


if __name__ == "__main__":
    main()
