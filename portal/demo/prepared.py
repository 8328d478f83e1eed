"""Slow results of a first start, cached for demos started with ``--prepared``.

The cache holds Slurm's accounting database with the demo's accounts, and the portal's database with
the test results of the demo's environments. Each is keyed by everything it was made from, so any
change of an input makes a new one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterable
from pathlib import Path

from .environments.making import locked, make_readable_directory, new_directory
from .people import Account

_ROOM = Path(__file__).resolve().parents[1]
# The tables of the portal's database that are valid in every home: they identify environments by
# their content (``Environment.fingerprint``). All others start empty.
_TABLES = ("environment_tests", "environment_verdicts")
_KEEP = 3  # of each kind; older ones were made from earlier inputs


class Prepared:
    """Prepared databases in ``cache``. ``made_of``: strings that all of their keys include."""

    def __init__(self, cache: Path, *made_of: str) -> None:
        self._cache = cache
        self._place = cache / "prepared"
        self._made_of = made_of

    # -- Slurm's accounting database --------------------------------------------------------

    def has_accounting(self, *made_of: str) -> bool:
        """Return True if the cache has a database directory made from these inputs."""
        return self._path("accounting", *made_of).is_dir()

    def lay_accounting(self, data: Path, account: Account, *made_of: str) -> bool:
        """Copy the cached database directory made from these inputs to ``data``, owned by
        ``account``. Return True if there was one. No server may be using ``data``."""
        cached = self._path("accounting", *made_of)
        if not cached.is_dir():
            return False
        shutil.rmtree(data, ignore_errors=True)
        _copy(cached, data)
        _give(data, account)
        return True

    def keep_accounting(self, data: Path, *made_of: str) -> None:
        """Cache the database directory ``data``, which no server may be using."""
        target = self._path("accounting", *made_of)
        with locked(self._cache, "prepared", lambda message: None):
            make_readable_directory(self._place)
            with new_directory(target) as new:
                new.rmdir()
                _copy(data, new)
                new.chmod(0o700)
                os.utime(new)  # time of caching, not of creation: see _remove_old
            self._remove_old("accounting")

    # -- the portal's database --------------------------------------------------------------

    def lay_tests(self, database: Path, account: Account, *made_of: str) -> bool:
        """Create ``database`` (an SQLite file) with the cached tests of the same environments.
        Return True if done, False if the file exists or no tests are cached."""
        cached = self._path("tests", *made_of)
        if database.exists() or not cached.is_file():
            return False
        new = database.with_suffix(".new")
        shutil.copyfile(cached, new)
        new.chmod(0o600)
        _give(new, account)
        new.rename(database)
        return True

    def keep_tests(self, database: Path, *made_of: str) -> None:
        """Cache the tests in ``database``, which a service may be using."""
        target = self._path("tests", *made_of)
        with locked(self._cache, "prepared", lambda message: None):
            make_readable_directory(self._place)
            with new_directory(self._place / "making") as folder:
                new = folder / "portal.sqlite"
                _copy_tables(database, new)
                new.replace(target)
            shutil.rmtree(self._place / "making")
            self._remove_old("tests")

    def _path(self, kind: str, *made_of: str) -> Path:
        digest = hashlib.sha256(repr((self._made_of, made_of)).encode()).hexdigest()[:16]
        return self._place / f"{kind}-{digest}"

    def _remove_old(self, kind: str) -> None:
        paths = sorted(self._place.glob(f"{kind}-*"), key=lambda path: path.stat().st_mtime)
        for path in paths[:-_KEEP]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def source_digest(*folders: str) -> str:
    """Return a digest of the portal's own modules in ``folders`` ("images", "store")."""
    digest = hashlib.sha256()
    for path in sorted(file for folder in folders for file in (_ROOM / folder).rglob("*.py")):
        digest.update(str(path.relative_to(_ROOM)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _copy(source: Path, target: Path) -> None:
    # cp keeps holes and shares blocks if it can: most of the 80 MB are zeros.
    subprocess.run(["cp", "-a", "--reflink=auto", "--sparse=always", source, target], check=True)


def _give(path: Path, account: Account) -> None:
    if account.uid == os.geteuid():
        return
    below: Iterable[Path] = path.rglob("*") if path.is_dir() else ()
    for entry in (path, *below):
        os.chown(entry, account.uid, account.gid)


def _copy_tables(source: Path, target: Path) -> None:
    """Create the portal's database ``target`` with the rows of _TABLES of ``source``."""
    from ..store.engine.address import (
        Address,  # imported here: it takes longer than a prepared start
    )
    from ..store.engine.upgrade import upgrade

    upgrade(Address.read(f"sqlite:///{target}"))
    with contextlib.closing(sqlite3.connect(target, isolation_level=None)) as database:
        database.execute("ATTACH ? AS source", (str(source),))
        for table in _TABLES:
            database.execute(f"INSERT INTO {table} SELECT * FROM source.{table}")  # noqa: S608
