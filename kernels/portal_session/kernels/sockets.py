"""Unix sockets of kernels, in a directory that no other account can enter.

jupyter_client lets kernels listen on ports of loopback. What a kernel publishes there can be read
by every user of the node: the key of the connection file signs messages; a subscriber needs none.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
from pathlib import Path
from typing import Any

from ..programs.runtime import OF_KERNELS, Runtime

# In the metadata of a kernelspec: true for a kernel that can listen on ports only.
PORTS_ONLY = "portal_ports_only"
READABLE = "readable by all users of its node"  # in such a kernel's title

_numbers = itertools.count(1)
_runtime: tuple[int, Runtime] | None = None  # with the process that made it


def use_unix_sockets(manager: Any) -> None:
    """Let the kernel that ``manager`` (a KernelManager) is about to start listen on Unix sockets,
    unless it does already. Raises OSError with a sentence if there is no folder for them."""
    if manager.transport != "ipc":
        manager.transport = "ipc"
        manager.ip = new_place()  # a socket: "-" and its number are added


def new_place() -> str:
    """Return a path for sockets in this process's directory. Raises OSError with a sentence if
    there is no folder for it."""
    return f"{_folder()}/{next(_numbers)}"


def remove_sockets(manager: Any) -> None:
    """Remove the sockets of the kernel of ``manager``, which has ended."""
    if manager.transport == "ipc":
        place = Path(manager.ip)
        for path in place.parent.glob(f"{place.name}-*"):
            with contextlib.suppress(OSError):
                path.unlink()


def _folder() -> str:
    """Return this process's directory, which is removed when it ends."""
    global _runtime
    if _runtime is None or _runtime[0] != os.getpid():  # a fork has its own
        _runtime = (os.getpid(), Runtime.make(os.environ, OF_KERNELS))
        atexit.register(_remove, *_runtime)
    return str(_runtime[1].path)


def _remove(process: int, runtime: Runtime) -> None:
    if process == os.getpid():
        runtime.remove()
