"""Virtual environments of more than one folder of packages, offered by the demo's catalog."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from api_client import Caller
from hub_client import wait_until


def usual_venv(demo: Any) -> Path:
    """Return the demo's own virtual environment."""
    return Path(yaml.safe_load((demo.environments / "python-venv.yaml").read_text())["path"])


def joined_venv(place: Path, usual: Path, *folders: Path) -> Path:
    """Make a virtual environment of the packages in ``folders``, and then of what ``usual`` has;
    return its path."""
    make = [sys.executable, "-m", "venv", "--clear", "--without-pip"]  # a demo may have an old one
    subprocess.run([*make, place], check=True)
    (own,) = place.glob("lib/python3*/site-packages")
    for number, packages in enumerate((*folders, packages_of(usual))):
        (own / f"{number}.pth").write_text(f"import site; site.addsitedir({str(packages)!r})\n")
    for folder in ("etc", "share"):  # Jupyter's settings and kernels
        (place / folder).symlink_to(usual / folder)
    for program in usual.glob("bin/portal-*"):
        (place / "bin" / program.name).symlink_to(program)
    return place


def packages_of(venv: Path) -> Path:
    """Return the folder of packages of a virtual environment."""
    (packages,) = venv.glob("lib/python3*/site-packages")
    return packages


@contextmanager
def offered(demo: Any, name: str, path: Path, **words: Any) -> Iterator[str]:
    """Put a virtual environment into the catalog while the block runs; wait until it is tested and
    offered."""
    file = demo.environments / f"{name}.yaml"
    file.write_text(yaml.safe_dump({"name": name, "kind": "venv", "path": str(path), **words}))

    def shown() -> bool:
        items = grace.get("environments", params={"all": True}).json()["items"]
        return any(item["name"] == name and item["offered"] for item in items)

    try:
        with Caller(demo.url, "grace") as grace:
            wait_until(f"the environment {name} is offered", shown, 120)
        yield name
    finally:
        file.unlink()
