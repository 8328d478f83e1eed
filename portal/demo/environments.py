"""The demo's environments: a container, a virtual environment, and modules."""

from __future__ import annotations

import json
import os
import shutil
import string
import tempfile
import time
from pathlib import Path

import yaml

from ..errors import ConfigurationError
from ..models.environment import Environment
from ..where import data_path
from .apptainer import users_can_mount
from .image import build_image, image_key
from .making import Progress, locked, make_readable_directory
from .python_packages import build_session_wheel, make_venv, remove_tree, session_key

_KEEP = 24 * 3600  # seconds

# What `pip install` needs in a session to reach the index that the machine itself uses.
_SITE_FILES = ("/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")


def ensure_environments(
    home: Path,
    cache: Path,
    apptainer: Path,
    progress: Progress,
    *,
    sandbox: bool | None = None,
) -> Path:
    """Makes what the demo's environments need and writes their YAML files.

    Returns the directory of the YAML files, ``home``/demo/environments. What is slow (the image,
    about 30 s, and the virtual environment, about 10 s) is kept in ``cache`` and made again only
    when its ingredients change. ``sandbox``: the image as a directory instead of a SIF file;
    None: a directory where users of this machine cannot mount a SIF. Raises ConfigurationError.
    """
    images, venvs = cache / "images", cache / "environments"
    if sandbox is None:
        sandbox = not users_can_mount()
    with locked(cache, "environments", progress):
        for directory in (images, venvs):
            make_readable_directory(directory)
        key = session_key()
        image = images / f"jupyterlab-{image_key(key)}{'' if sandbox else '.sif'}"
        venv = venvs / f"python-{key}"
        ready = image.exists() and (venv / ".portal-ready").exists()
        if not ready:
            with tempfile.TemporaryDirectory(prefix=".wheel-", dir=cache) as work:
                wheel = build_session_wheel(cache, Path(work))
                make_venv(venv, wheel, cache, progress)
                if not image.exists():
                    build_image(image, wheel, cache, apptainer, progress, sandbox=sandbox)
        _remove_old(images, "jupyterlab-", image)
        _remove_old(venvs, "python-", venv)
    return _write(home / "demo", image=image, venv=venv)


def _remove_old(directory: Path, prefix: str, current: Path) -> None:
    """Removes what earlier ingredients made, once it is a day old: a session may still use it."""
    for path in directory.glob(f"{prefix}*"):
        try:
            if path != current and time.time() - path.stat().st_mtime > _KEEP:
                remove_tree(path) if path.is_dir() else path.unlink()
        except OSError:
            continue  # another account's: not ours to remove


def _write(demo: Path, *, image: Path, venv: Path) -> Path:
    """Fills in deploy/demo/environments and copies the modulefiles to where users can read."""
    source = data_path("deploy") / "demo"
    modulefiles = demo / "modulefiles"
    make_readable_directory(demo)
    shutil.copytree(source / "modulefiles", modulefiles, dirs_exist_ok=True)
    for directory, _, files in os.walk(modulefiles):
        Path(directory).chmod(0o755)
        for name in files:
            (Path(directory) / name).chmod(0o644)
    target = demo / "environments"
    make_readable_directory(target)
    # JSON's strings are YAML's too, so any path can stand there.
    values = {
        "image": json.dumps(str(image)),
        "venv": json.dumps(str(venv)),
        "modulefiles": json.dumps(str(modulefiles)),
        "binds": json.dumps([{"source": path} for path in _SITE_FILES if Path(path).is_file()]),
    }
    names = set()
    for template in sorted((source / "environments").glob("*.yaml")):
        text = string.Template(template.read_text()).substitute(values)
        try:
            Environment.model_validate(yaml.safe_load(text))
        except (yaml.YAMLError, ValueError) as error:
            raise ConfigurationError(f"{template} is wrong: {error}") from error
        path = target / template.name
        path.write_text(text)
        path.chmod(0o644)
        names.add(template.name)
    for path in target.glob("*.yaml"):
        if path.name not in names:
            path.unlink()
    return target
