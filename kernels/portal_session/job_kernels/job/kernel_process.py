"""Process of the kernel in this job, and its connection file.

The process is started from the kernelspec as jupyter_client does, but without it: it loads for a
third of the time in which a kernel starts.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from string import Template
from typing import Any

from ...kernels.environment import command_of, for_commands, interrupt_inside
from ...kernels.plain_spec import plain_spec

_CHANNELS = ("shell", "iopub", "stdin", "control", "hb")
_PYTHON = {"python", "python{}".format(*sys.version_info), "python{}.{}".format(*sys.version_info)}
_ENDS = 5.0  # seconds that a process may take to end after SIGKILL


class KernelProcess:
    """Process of the kernel ``name`` (of a kernelspec), whose sockets and connection file are in
    ``folder``. ``key`` signs its messages; it starts in the directory ``cwd``."""

    def __init__(self, name: str, folder: Path, key: str, cwd: str) -> None:
        self._name, self._folder, self._key = name, folder, key
        self._cwd = cwd if os.path.isdir(cwd) else str(Path.home())  # noqa: PTH112
        self._process: subprocess.Popen[bytes] | None = None
        self._in_container = False
        self.info: dict[str, Any] = {}  # content of the connection file
        self.began = 0.0  # time.monotonic() of the start
        self.fresh = False  # started, and not waited for yet
        self.interrupted_by_message = False

    def start(self) -> None:
        """Start the process. Raises OSError, and what jupyter_client raises without a usable
        kernelspec."""
        self.began = time.monotonic()
        spec = _kernelspec(self._name)
        provisioner = spec.metadata.get("kernel_provisioner", {}).get("provisioner_name")
        if provisioner not in (None, "local-provisioner"):
            raise OSError(f"its kernelspec requires the provisioner '{provisioner}'")
        argv, variables = self._argv(spec), _variables(spec)
        command = command_of(spec, self._name, argv, variables, self._cwd, str(self._folder))
        self._in_container = command.in_container
        self.interrupted_by_message = spec.interrupt_mode == "message"
        self._process = subprocess.Popen(
            command.argv,
            env={**command.env, "JPY_PARENT_PID": str(os.getpid())},  # it ends with this process
            cwd=self._cwd,
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # a group, which is interrupted and killed as a whole
        )
        self.fresh = True

    def _argv(self, spec: Any) -> list[str]:
        """Write a connection file, and return the command with its path."""
        path = self._folder.resolve() / "kernel.json"
        # A process that was killed leaves its sockets.
        sockets = str(self._folder / f"k{time.monotonic_ns() % 1000000}")
        ports = {f"{channel}_port": number for number, channel in enumerate(_CHANNELS, 1)}
        self.info = {"transport": "ipc", "ip": sockets, **ports, "key": self._key}
        self.info |= {"signature_scheme": "hmac-sha256", "kernel_name": self._name}
        path.touch(mode=0o600)
        path.write_text(json.dumps(self.info))
        places = {"connection_file": str(path), "resource_dir": str(spec.resource_dir)}
        places["prefix"] = sys.prefix
        program, *arguments = spec.argv
        argv = [sys.executable if program in _PYTHON else program, *arguments]
        return [
            os.path.expanduser(  # noqa: PTH111 - "~" alone, as jupyter_client does
                re.sub(r"\{([A-Za-z0-9_]+)\}", lambda part: places.get(part[1], part[0]), word)
            )
            for word in argv
        ]

    @property
    def pid(self) -> int:
        """Id of the process; 0 if none was started, or after `kill`."""
        return self._process.pid if self._process is not None else 0

    def poll(self) -> int | None:
        """Return the exit code, as subprocess has it; None while it runs, 0 without a process."""
        return self._process.poll() if self._process is not None else 0

    def interrupt(self) -> None:
        """Interrupt the process and its children by a signal."""
        with contextlib.suppress(ProcessLookupError):
            if self._in_container:
                interrupt_inside(self.pid, self.pid)
            elif self.pid:
                os.killpg(self.pid, signal.SIGINT)

    def kill(self) -> None:
        """Kill the process and its children, and wait for its end."""
        self.fresh = False
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)  # children are left also if it has ended
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_ENDS)
            self._process = None


def _kernelspec(name: str) -> Any:
    """Return a kernelspec. Raises the exceptions of jupyter_client."""
    if (spec := plain_spec(name)) is not None:
        return spec
    from ...kernels.kernels import SessionKernelSpecs

    return SessionKernelSpecs().get_kernel_spec(name)


def _variables(spec: Any) -> dict[str, str]:
    """Return the variables of this process without those of the job, and the kernelspec's own,
    which may name others."""
    own = {name: Template(text).safe_substitute(os.environ) for name, text in spec.env.items()}
    variables = {**os.environ, **own}
    if spec.language.lower().startswith("python"):
        variables.pop("PYTHONEXECUTABLE", None)  # it is this Python's
    return for_commands(variables)
