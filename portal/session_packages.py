"""Python packages of a session's server, and uv to install them with.

uv does not read pip's settings, which are the ones that a site has. So they are passed on in uv's
environment variables: no index URL appears on a command line or in a file.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from .errors import ConfigurationError
from .paths import data_path


def uv_program() -> Path:
    """Return the path of uv, in the portal's environment or in PATH. Raises ConfigurationError."""
    beside = Path(sys.executable).parent / "uv"
    if beside.exists():
        return beside
    program = shutil.which("uv")
    if not program:
        raise ConfigurationError(
            "uv is missing: install it into the portal's environment (pip install uv)."
        )
    return Path(program)


def uv_environment(cache: Path) -> dict[str, str]:
    """Return the environment of uv: this process's, pip's settings for uv, a cache of its own."""
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
    # As in pip: the best version of all indexes, not of the first that has the package.
    environment.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    environment.setdefault("UV_PYTHON_DOWNLOADS", "never")
    environment["UV_CACHE_DIR"] = str(cache / "uv")
    environment["UV_NO_PROGRESS"] = "1"
    environment.pop("VIRTUAL_ENV", None)
    return environment


def pip_settings() -> dict[str, str]:
    """Return pip's settings of this machine: ``{"index-url": "…"}``, environment over file.

    Sections are as in pip's configuration: [install] wins over [global].
    """
    result = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    sections: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in result.stdout.splitlines():
        key, _, quoted = line.partition("=")
        section, _, name = key.rpartition(".")
        if section in sections:
            try:
                sections[section][name] = str(ast.literal_eval(quoted))
            except (SyntaxError, ValueError):
                sections[section][name] = quoted
    return {**sections["global"], **sections["install"], **sections[":env:"]}


# Shared notebooks in a room: portal-session's extra "together". Off in other sessions.
TOGETHER = "jupyter-collaboration>=4,<6"


def requirements() -> list[str]:
    """Return the requirements of a session's environment, besides portal-session."""
    # TensorBoard and its proxy: portal-session's extra "tensorboard".
    wanted = ["pip", "jupyterlab>=4.4,<5", "tensorboard>=2.12", "jupyter-server-proxy>=4.2,<5"]
    wanted.append(TOGETHER)
    try:
        # The server talks to this very Hub.
        wanted.append(f"jupyterhub=={version('jupyterhub')}")
    except PackageNotFoundError:
        wanted.append("jupyterhub>=6.1,<7")
    return wanted


def constraints() -> Path | None:
    """Return the file of the versions that the portal is tested with; None if it is missing."""
    path = data_path("deploy") / "constraints.txt"
    return path if path.exists() else None
