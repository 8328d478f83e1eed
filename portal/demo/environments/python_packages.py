"""Python packages of the demo's environments: portal-session's wheel, a virtual environment."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from portal.errors import ConfigurationError
from portal.paths import data_path
from portal.session_packages import constraints, requirements, uv_environment, uv_program

from .making import Progress, new_directory, run, timed

SYSTEM_PYTHON = Path("/usr/bin/python3")  # a version manager's Python is often out of users' reach
# Directories that npm leaves in kernels/labextension; not part of the distribution.
_MADE = frozenset({"node_modules", "lib", "out"})
# The environment is read-only and has no language servers. Without these settings, JupyterLab would
# run pip, npm, Node.js and R at each start to find that out (1.3 s of CPU on a node that has them).
_SETTINGS = json.dumps(
    {
        "LabApp": {"extension_manager": "readonly"},
        "LanguageServerManager": {"autodetect": False},
    }
)
_READY = ".portal-ready"  # marks a complete virtual environment


def build_session_wheel(cache: Path, into: Path) -> Path:
    """Build the distribution ``portal-session`` as a wheel in the directory ``into``."""
    options: list[str | Path] = ["-q", "--wheel", "--no-config", "--python", SYSTEM_PYTHON]
    run(
        [uv_program(), "build", *options, "--out-dir", into, data_path("kernels")],
        "build portal-session",
        # JupyterLab's extension is built once in the cache (kernels/hatch_build.py).
        env={**uv_environment(cache), "PORTAL_CACHE": str(cache)},
        cwd=into,
    )
    return next(into.glob("portal_session-*.whl"))


def session_wheel(folder: Path, cache: Path) -> Path:
    """Return portal-session's wheel in ``folder``, built first if the folder is missing."""
    if not folder.exists():
        with new_directory(folder) as new:
            build_session_wheel(cache, new)
    return next(folder.glob("portal_session-*.whl"))


def session_key() -> str:
    """Return ten hexadecimal digits that change with the packages of the environments."""
    source = data_path("kernels")
    files = [
        path
        for path in sorted(source.rglob("*"))
        if path.suffix not in ("", ".pyc")
        and not _MADE.intersection(path.parts[len(source.parts) :])
    ]
    parts = [*requirements(), os.uname().machine, SYSTEM_PYTHON.resolve().name, _SETTINGS]
    if constraints_file := constraints():
        parts.append(constraints_file.read_text())
    return digest(*parts, *(f"{p.name}\n{p.read_text()}" for p in files if p.is_file()))


def digest(*parts: str) -> str:
    """Return a digest of ``parts``: ten hexadecimal digits."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:10]


def make_venv(
    path: Path,
    wheel: Path,
    cache: Path,
    progress: Progress,
    *,
    name: str = "python-venv",
    packages: Sequence[str] = (),
    alone: Sequence[str] = (),
) -> None:
    """Create the virtual environment ``path`` with JupyterLab and portal-session, for the
    environment ``name``; also with ``packages``, and with others ``alone``, without theirs.

    It is built in place, because its scripts contain its path, and marked when complete. An
    environment without the mark is rebuilt.
    """
    if (path / _READY).exists():
        return
    environment = uv_environment(cache)
    if not SYSTEM_PYTHON.exists():
        raise ConfigurationError(f"{SYSTEM_PYTHON} is missing: install python3.")
    with timed(progress, f"Environment '{name}': installing its packages"):
        remove_tree(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        uv = uv_program()
        run(
            [uv, "venv", "-q", "--no-config", "--no-project", "--python", SYSTEM_PYTHON, path],
            f"create the virtual environment {path}",
            env=environment,
        )
        options: list[str | Path] = ["-q", "--no-config", "--python", path / "bin/python"]
        if constraints_file := constraints():
            options += ["--constraints", constraints_file]
        wanted: list[str | Path] = [*requirements(), wheel, *packages]
        run(
            [uv, "pip", "install", "--compile-bytecode", *options, *wanted],
            "install JupyterLab",
            env=environment,
        )
        if alone:
            run(
                [uv, "pip", "install", "--no-deps", *options, *alone],
                f"install {alone[0]}",
                env=environment,
            )
        for record in path.glob("lib/python3*/site-packages/portal_session-*/direct_url.json"):
            record.unlink()  # contains a path of this machine
        settings = path / "etc/jupyter/jupyter_server_config.d"
        settings.mkdir(parents=True, exist_ok=True)
        (settings / "portal_demo.json").write_text(_SETTINGS)
        (path / _READY).touch()
        # pip in a session then installs into the user's home, even if the account is the owner.
        for directory in [*path.glob("lib/python3*/site-packages"), path / "bin"]:
            directory.chmod(0o555)


def remove_tree(path: Path) -> None:
    """Remove ``path`` if it exists, including write-protected directories."""
    if not path.exists():
        return
    for directory, _, _ in os.walk(path):
        if not Path(directory).is_symlink():
            Path(directory).chmod(0o755)
    shutil.rmtree(path)
