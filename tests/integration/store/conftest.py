"""Each test of the tables runs on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import migrated
import pytest

from portal.store import Store
from portal.store.engine import upgrade as upgrade_module
from portal.store.engine.address import Address

Make = Callable[..., Store]


@pytest.fixture(autouse=True)
def migrations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every database is new: it is no copy of the template."""
    monkeypatch.setattr(upgrade_module, "_make_file", migrated.MAKE_FILE)


@pytest.fixture
async def make_store() -> AsyncIterator[Make]:
    """``make_store(url, **settings)``; closed after the test."""
    made: list[Store] = []

    def make(url: str, **settings: Any) -> Store:
        made.append(Store(url=url, log=logging.getLogger("store"), **settings))
        return made[-1]

    yield make
    for store in made:
        await store.close()


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/portal.sqlite"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    """A new, empty database of each kind."""
    name = "sqlite_url" if request.param == "sqlite" else "postgres_url"
    return str(request.getfixturevalue(name))


@pytest.fixture
def former_url(url: str) -> str:
    """A database as version 0018 of its tables has left it."""
    address = Address.read(url)
    if address.path is not None:
        address.path.touch(0o600)
    script = Path(__file__).with_name(f"version_0018.{url.partition(':')[0]}.sql").read_text()
    engine = address.engine(0, 1)
    with engine.connect() as connection:
        driver = connection.connection.driver_connection
        assert driver is not None
        (driver.executescript if address.path else driver.execute)(script)
        driver.commit()
    engine.dispose()
    return url


@pytest.fixture
async def store(url: str, make_store: Make) -> Store:
    """One with this version's tables."""
    made = make_store(url)
    await made.upgrade()
    return made
