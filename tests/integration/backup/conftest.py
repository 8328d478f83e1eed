"""Sites that are backed up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from backup_site import PASSPHRASE, Site, fill

Make = Callable[..., Site]


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
        site = Site(place, hub, own, more)
        site.backups.mkdir()
        site.passphrase_file.write_text(PASSPHRASE + "\n")
        site.passphrase_file.chmod(0o600)
        site.write()
        fill(site)
        return site

    return make


@pytest.fixture
def site(make_site: Make) -> Site:
    return make_site("sqlite")
