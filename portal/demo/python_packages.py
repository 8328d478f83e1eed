"""Python packages for the demo's environments, installed with uv from this machine's own index.

uv does not read pip's settings, and pip's are the ones that a site has. So they are handed on
in uv's environment variables: no address stands on a command line or in a file.
"""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ..errors import ConfigurationError
from ..where import data_path
from .making import Progress, new_directory, run, timed

SYSTEM_PYTHON = Path("/usr/bin/python3")  # a version manager's Python is often out of users' reach
# What somebody's npm leaves in kernels/labextension: nothing of the distribution.
_MADE = frozenset({"node_modules", "lib", "out"})
_READY = ".portal-ready"  # stands in a virtual environment that was made to its end


def uv_program() -> Path:
    """uv, from the portal's own environment or from PATH. Raises ConfigurationError."""
    beside = Path(sys.executable).parent / "uv"
    if beside.exists():
        return beside
    found = shutil.which("uv")
    if not found:
        raise ConfigurationError(
            "uv is missing: install it into the portal's environment (pip install uv)."
        )
    return Path(found)


def uv_environment(cache: Path) -> dict[str, str]:
    """The environment to run uv in: this process's, pip's settings for uv, a cache of its own."""
    settings = pip_settings()
    environment = dict(os.environ)
    extra = settings.get("extra-index-url", "")
    names = {
        "UV_DEFAULT_INDEX": settings.get("index-url", ""),
        "UV_INDEX": " ".join(extra.split()),
        "UV_FIND_LINKS": ",".join(settings.get("find-links", "").split()),
        "UV_INSECURE_HOST": " ".join(settings.get("trusted-host", "").split()),
        "UV_NO_INDEX": "1" if settings.get("no-index", "") in ("1", "true", "True", "yes") else "",
        "SSL_CERT_FILE": settings.get("cert", ""),
    }
    for name, value in names.items():
        if value:
            environment.setdefault(name, value)
    # As pip does it: the best version of all indexes, not of the first that has the package.
    environment.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    environment.setdefault("UV_PYTHON_DOWNLOADS", "never")
    environment["UV_CACHE_DIR"] = str(cache / "uv")
    environment["UV_NO_PROGRESS"] = "1"
    environment.pop("VIRTUAL_ENV", None)
    return environment


def pip_settings() -> dict[str, str]:
    """pip's settings of this machine: ``{"index-url": "…"}``, environment over file.

    Sections are as in pip's configuration: what is under [install] wins over [global].
    """
    answer = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    found: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in answer.stdout.splitlines():
        key, _, quoted = line.partition("=")
        section, _, name = key.rpartition(".")
        if section in found:
            try:
                found[section][name] = str(ast.literal_eval(quoted))
            except (SyntaxError, ValueError):
                found[section][name] = quoted
    return {**found["global"], **found["install"], **found[":env:"]}


def build_session_wheel(cache: Path, into: Path) -> Path:
    """Builds the distribution ``portal-session`` as a wheel in the directory ``into``."""
    options: list[str | Path] = ["-q", "--wheel", "--no-config", "--python", SYSTEM_PYTHON]
    run(
        [uv_program(), "build", *options, "--out-dir", into, data_path("kernels")],
        "build portal-session",
        # The extension of JupyterLab is built there once (kernels/hatch_build.py).
        env={**uv_environment(cache), "PORTAL_CACHE": str(cache)},
        cwd=into,
    )
    return next(into.glob("portal_session-*.whl"))


def session_wheel(folder: Path, cache: Path) -> Path:
    """portal-session's wheel in ``folder``, which is made with it where it is not there."""
    if not folder.exists():
        with new_directory(folder) as new:
            build_session_wheel(cache, new)
    return next(folder.glob("portal_session-*.whl"))


def requirements() -> list[str]:
    """What every environment of the demo has, besides portal-session."""
    # TensorBoard and the way to it: portal-session's extra "tensorboard".
    wanted = ["pip", "jupyterlab>=4.4,<5", "tensorboard>=2.12", "jupyter-server-proxy>=4.2,<5"]
    try:
        # The server speaks with this very Hub.
        wanted.append(f"jupyterhub=={version('jupyterhub')}")
    except PackageNotFoundError:
        wanted.append("jupyterhub>=6.1,<7")
    return wanted


def constraints() -> Path | None:
    """The file with the versions that the portal is tested with, if it is there."""
    path = data_path("deploy") / "constraints.txt"
    return path if path.exists() else None


def session_key() -> str:
    """Ten hexadecimal digits that change when the packages of the environments do."""
    source = data_path("kernels")
    files = [
        path
        for path in sorted(source.rglob("*"))
        if path.suffix not in ("", ".pyc")
        and not _MADE.intersection(path.parts[len(source.parts) :])
    ]
    parts = [*requirements(), os.uname().machine, SYSTEM_PYTHON.resolve().name]
    if found := constraints():
        parts.append(found.read_text())
    return digest(*parts, *(f"{p.name}\n{p.read_text()}" for p in files if p.is_file()))


def digest(*parts: str) -> str:
    """Ten hexadecimal digits that name ``parts``."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:10]


def make_venv(path: Path, wheel: Path, cache: Path, progress: Progress) -> None:
    """Makes the virtual environment ``path`` with JupyterLab and portal-session.

    It is made in its place (its scripts name it) and marked when complete; one without the
    mark is made anew.
    """
    if (path / _READY).exists():
        return
    environment = uv_environment(cache)
    if not SYSTEM_PYTHON.exists():
        raise ConfigurationError(f"{SYSTEM_PYTHON} is missing: install python3.")
    with timed(progress, "Environment 'python-venv': installing JupyterLab"):
        remove_tree(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        uv = uv_program()
        run(
            [uv, "venv", "-q", "--no-config", "--no-project", "--python", SYSTEM_PYTHON, path],
            f"make the virtual environment {path}",
            env=environment,
        )
        options: list[str | Path] = ["-q", "--no-config", "--python", path / "bin/python"]
        if found := constraints():
            options += ["--constraints", found]
        run(
            [uv, "pip", "install", "--compile-bytecode", *options, *requirements(), wheel],
            "install JupyterLab",
            env=environment,
        )
        for record in path.glob("lib/python3*/site-packages/portal_session-*/direct_url.json"):
            record.unlink()  # names a place on this machine
        (path / _READY).touch()
        # pip in a session then installs for the person, even where the account is the owner.
        for directory in [*path.glob("lib/python3*/site-packages"), path / "bin"]:
            directory.chmod(0o555)


def remove_tree(path: Path) -> None:
    """Removes ``path`` if it is there, write-protected directories too."""
    if not path.exists():
        return
    for directory, _, _ in os.walk(path):
        if not Path(directory).is_symlink():
            Path(directory).chmod(0o755)
    shutil.rmtree(path)
