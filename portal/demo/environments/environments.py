"""The demo's environments: a container, a virtual environment, and modules."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import string
import time
from pathlib import Path
from typing import NamedTuple

import yaml

from portal.errors import ConfigurationError
from portal.models.catalog.environment import Environment
from portal.paths import data_path

from .apptainer import users_can_mount
from .image import build_image, image_key
from .making import Progress, locked, make_readable_directory
from .python_packages import make_venv, remove_tree, session_key, session_wheel

_KEEP = 24 * 3600  # seconds

# Files with which `pip install` in a session reaches the index that the machine itself uses.
_SITE_FILES = ("/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")


class DemoEnvironments(NamedTuple):
    """Paths of the environments."""

    files: Path  # directory of the YAML files
    venv: Path  # the nodes' virtual environment with JupyterLab
    wheels: Path  # folder of portal-session's wheel, for images


def ensure_environments(
    home: Path,
    cache: Path,
    apptainer: Path,
    progress: Progress,
    *,
    sandbox: bool | None = None,
) -> DemoEnvironments:
    """Build the demo's environments and write their YAML files.

    The image (about 30 s) and the virtual environment (about 10 s) are kept in ``cache`` and built
    again only if their inputs change. ``sandbox``: build the image as a directory instead of a SIF
    file; None: a directory if users of this machine cannot mount a SIF. Raises ConfigurationError.
    """
    images, venvs, wheels = cache / "images", cache / "environments", cache / "wheels"
    if sandbox is None:
        sandbox = not users_can_mount()
    with locked(cache, "environments", progress):
        for directory in (images, venvs, wheels):
            make_readable_directory(directory)
        key = session_key()
        image = images / f"jupyterlab-{image_key(key)}{'' if sandbox else '.sif'}"
        venv = venvs / f"python-{key}"
        wheel = session_wheel(wheels / key, cache)
        if not (image.exists() and (venv / ".portal-ready").exists()):
            make_venv(venv, wheel, cache, progress)
            if not image.exists():
                build_image(image, wheel, cache, apptainer, progress, sandbox=sandbox)
        remove_old(images, "jupyterlab-", image)
        remove_old(venvs, "python-", venv)
        remove_old(wheels, "", wheel.parent)
    return DemoEnvironments(
        _write(home / "demo", image=image, venv=venv), venv=venv, wheels=wheel.parent
    )


def remove_old(directory: Path, prefix: str, current: Path) -> None:
    """Remove builds of earlier inputs after a day; until then, sessions may still use them."""
    for path in directory.glob(f"{prefix}*"):
        try:
            if path != current and time.time() - path.stat().st_mtime > _KEEP:
                remove_tree(path) if path.is_dir() else path.unlink()
        except OSError:
            continue  # owned by another account


def _write(demo: Path, *, image: Path, venv: Path) -> Path:
    """Fill in deploy/demo/environments and copy the modulefiles to where users can read them."""
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
    # JSON strings are valid YAML, whatever the path contains.
    values = {
        "image": json.dumps(str(image)),
        "venv": json.dumps(str(venv)),
        "modulefiles": json.dumps(str(modulefiles)),
        "binds": json.dumps(site_binds()),
    }
    texts = {}
    for template in sorted((source / "environments").glob("*.yaml")):
        text = string.Template(template.read_text()).substitute(values)
        try:
            Environment.model_validate(yaml.safe_load(text))
        except (yaml.YAMLError, ValueError) as error:
            raise ConfigurationError(f"{template} is wrong: {error}") from error
        texts[template.name] = text
    _lay_down(texts, target, demo / "environments.json")
    return target


def site_binds() -> list[dict[str, str]]:
    """Return the bind mounts with which `pip install` works in a container of the demo."""
    return [{"source": path} for path in _SITE_FILES if Path(path).is_file()]


def _lay_down(texts: dict[str, str], target: Path, record: Path) -> None:
    """Write the files into ``target``, except those that an admin has changed or removed since
    the last time. ``record`` stores the digests of what was written."""
    known = json.loads(record.read_text()) if record.exists() else {}

    def untouched(name: str) -> bool:
        path = target / name
        return path.is_file() and _mark(path.read_bytes()) == known.get(name)

    for name in sorted(set(known) - set(texts)):
        if untouched(name):
            (target / name).unlink()
    for name, text in texts.items():
        if untouched(name) or not (name in known or (target / name).exists()):
            new = target / f".{name}.new"
            new.write_text(text)
            new.chmod(0o644)
            new.replace(target / name)
    record.write_text(json.dumps({name: _mark(text.encode()) for name, text in texts.items()}))


def _mark(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
