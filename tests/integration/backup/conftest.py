"""Sites that are backed up."""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from backup_site import PASSPHRASE, Site, fill

Make = Callable[..., Site]


class Made(NamedTuple):
    """A site with SQLite's files, a copy of its folder, and a backup of it."""

    site: Site
    copy: Path
    backup: Path


@pytest.fixture(scope="session")
def memory() -> Iterator[Path]:
    """A folder in memory: most of these tests wait for the disk otherwise, not for the portal."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="pt-", dir=place) as folder:
        yield Path(folder)


@pytest.fixture
def tmp_path(memory: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=memory))


@pytest.fixture
def make_site(tmp_path: Path, request: pytest.FixtureRequest) -> Make:
    """``make_site("sqlite" or "postgresql", more="configuration", place=folder)``."""

    def make(kind: str, more: str = "", place: Path = tmp_path) -> Site:
        if kind == "sqlite":
            hub, own = (f"sqlite:///{place}/state/{name}.sqlite" for name in ("hub", "portal"))
        else:
            server = request.getfixturevalue("postgres")
            hub, own = server.new(), server.new()
            if kind == "one postgresql":
                own = hub
        return new_site(Site(place, hub, own, more))

    return make


def new_site(site: Site) -> Site:
    site.backups.mkdir()
    site.passphrase_file.write_text(PASSPHRASE + "\n")
    site.passphrase_file.chmod(0o600)
    site.write()
    fill(site)
    return site


@pytest.fixture(scope="session")
def made(memory: Path) -> Made:
    """Made once: a backup has the places of its site."""
    folder = Path(tempfile.mkdtemp(dir=memory))
    place, copy, backup = folder / "site", folder / "copy", folder / "one.tar"
    place.mkdir()
    urls = (f"sqlite:///{place}/state/{name}.sqlite" for name in ("hub", "portal"))
    site = new_site(Site(place, *urls))
    shutil.copytree(place, copy)
    assert site.backup(backup).returncode == 0
    return Made(site, copy, backup)


@pytest.fixture
def site(made: Made) -> Site:
    """A site with SQLite's files."""
    shutil.rmtree(made.site.place)
    shutil.copytree(made.copy, made.site.place)
    return dataclasses.replace(made.site, files=dict(made.site.files))


@pytest.fixture
def backup(site: Site, made: Made) -> Path:
    """A backup of the site."""
    return Path(shutil.copy2(made.backup, site.backups / "one.tar"))
