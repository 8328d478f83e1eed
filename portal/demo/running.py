"""A running demo, seen from outside: its state, its control commands, and commands inside it.

demo = Running(Home.find("/var/tmp/mine"))
demo.run(["squeue"], user="ada").stdout     # inside the namespace, as ada
demo.control("stop", "slurmctld")              # a single piece; also "start", "kill" (SIGKILL)
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import NotFound, PortalError, Unavailable
from .daemons.process import start_time
from .home import Home

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Running:
    """Client of the demo in ``home``, which need not be running."""

    def __init__(self, home: Home) -> None:
        self.home = home

    @property
    def state(self) -> dict[str, Any] | None:
        """State of the demo (``state.json``); None if it is not running.

        ``pid``, ``url``, ``form`` ("people" or "one account"), ``simulated_gpus``, ``ready``,
        ``slurm_conf``, and the settings that deploy/demo/jupyterhub_config.py reads.
        """
        try:
            state: dict[str, Any] = json.loads((self.home.run / "state.json").read_text())
        except (OSError, ValueError):
            return None
        return state if start_time(state["pid"]) == state["started"] else None

    def command(
        self, argv: Sequence[str], user: str | None = None, env: Mapping[str, str] | None = None
    ) -> list[str]:
        """Return the command line that runs ``argv`` in the demo as ``user`` (None: the caller).

        It runs in the user's home, in a minimal environment with ``env`` added. Raises NotFound if
        the demo is not running or the user is not one of its accounts.
        """
        state = self.state
        if state is None:
            raise NotFound(f"No demo is running in {self.home.root}.")
        variables = {"PATH": _PATH, "LANG": "C.UTF-8"}
        if state["form"] != "people":
            if user is not None:
                raise NotFound("This demo runs under one account and has no other users.")
            variables |= {"HOME": str(Path.home()), "SLURM_CONF": state["slurm_conf"]}
            return ["env", "-i", *_pairs({**variables, **(env or {})}), *argv]
        enter = ["nsenter", f"--target={state['pid']}", "--mount"]
        if user is None:
            variables |= {"HOME": "/root", "USER": "root", "LOGNAME": "root"}
            return [*enter, "--", "env", "-i", *_pairs({**variables, **(env or {})}), *argv]
        account = _account(state["pid"], user)
        become = ["setpriv", f"--reuid={account[2]}", f"--regid={account[3]}"]
        # --init-groups reads the group file of the namespace: setpriv runs inside it.
        become += ["--init-groups"] if user != "root" else ["--clear-groups"]
        variables |= {"HOME": account[5], "USER": user, "LOGNAME": user, "SHELL": account[6]}
        place = account[5] if user in state["people"] else "/"
        clean = ["env", "-i", f"--chdir={place}", *_pairs({**variables, **(env or {})})]
        return [*enter, "--", *become, *clean, *argv]

    def run(
        self,
        argv: Sequence[str],
        user: str | None = None,
        env: Mapping[str, str] | None = None,
        *,
        check: bool = True,
        input: str | None = None,
        timeout: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        """Run ``argv`` in the demo. Raises PortalError on a nonzero exit status if ``check``."""
        done = subprocess.run(
            self.command(argv, user, env),
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if check and done.returncode != 0:
            raise PortalError(
                f"{argv} as {user or 'the starter'}: status {done.returncode}\n"
                f"{done.stdout}{done.stderr}"
            )
        return done

    def control(self, do: str, name: str = "", timeout: float = 180) -> dict[str, Any]:
        """Tell the supervisor to ``stop``, ``start`` or ``kill`` a piece, or ask ``status``.

        A start is answered once the piece serves, which may take 150 s. Raises Unavailable if the
        supervisor does not answer, PortalError with its message if it refuses.
        """
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(timeout)
            try:
                line.connect(str(self.home.run / "control"))
                line.sendall(json.dumps({"do": do, "name": name}).encode() + b"\n")
                text = b"".join(iter(lambda: line.recv(65536), b""))
                response: dict[str, Any] = json.loads(text)
            except (OSError, ValueError) as error:
                raise Unavailable(
                    f"The demo in {self.home.root} does not answer: {error}"
                ) from None
        if "error" in response:
            raise PortalError(response["error"])
        return response


def _account(pid: int, user: str) -> list[str]:
    """Return the fields of ``user`` in the passwd file that the process ``pid`` of a demo sees."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/root/etc/passwd").read_text().splitlines():
            fields = line.split(":")
            if fields[0] == user:
                return fields
    raise NotFound(f"'{user}' is not an account of this demo.")


def _pairs(env: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in env.items()]
