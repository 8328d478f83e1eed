"""Restore of a backup: verified, staged beside what it replaces, then put in its place; what was
there stays beside it until everything has succeeded."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from portal import disk
from portal.errors import Conflict, InvalidRequest, StoreUnavailable
from portal.store.engine.address import Address
from portal.store.engine.in_use import hold

from .account import acting_as
from .archive import Reader
from .databases import SiteDatabase, head_of, newer_than_known
from .loading import Loading, ensure_unused
from .manifest import KeptDatabase, Manifest
from .places import (
    BEFORE,
    Target,
    forget,
    give,
    make_folder,
    remove_all,
    swap,
    writer_of,
)
from .sealing import Seal
from .stopped import ensure_stopped
from .upgrading import upgrade_tables, upgrade_words

_SIDECARS = ("-wal", "-shm", "-journal")  # of SQLite: never those of another database


class Restore:
    """Restore of one backup. ``seal``: None leaves its secrets where they are."""

    def __init__(self, reader: Reader, seal: Seal | None) -> None:
        self._reader, self._seal = reader, seal
        self.manifest: Manifest = reader.manifest
        self.skipped = [kept for kept in self.manifest.files if kept.sealed and seal is None]
        self._files = [
            Target(Path(kept.path), kept)
            for kept in self.manifest.files
            if seal is not None or not kept.sealed
        ]
        self._sqlite = [
            Target(Path(kept.path), kept, _SIDECARS)
            for kept in self.manifest.databases
            if kept.path
        ]

    def plan(self) -> list[str]:
        """Return what would be done, a line for each database and file."""
        lines = []
        for kept in self.manifest.databases:
            place = f"SQLite file {kept.path}" if kept.path else _address(kept, "").place
            lines.append(f"{' and '.join(kept.roles)}: {place}{upgrade_words(kept)}")
        for target in self._files:
            exists = target.path.exists() or target.path.is_symlink()
            state = "is replaced" if exists else "is new"
            lines.append(f"{target.path} {state}")
        lines += [f"{kept.path} is not touched: it needs the passphrase" for kept in self.skipped]
        return lines

    def verify(self) -> None:
        """Check everything that needs no change: the archive, the versions, that nothing runs.
        Raises PortalError."""
        self._reader.verify(self._seal)
        for kept in self.manifest.databases:
            for role, revision in kept.roles.items():
                if newer_than_known(role, revision):
                    raise Conflict(
                        f"The backup is newer than this installation: its {role} database has the "
                        f"version {revision}, and {head_of(role)} is known here. Install the "
                        f"portal's version {self.manifest.portal} or a newer one, then restore. "
                        "Nothing was changed."
                    )
        self._ensure_stopped()

    def run(self) -> None:
        """Restore. Raises PortalError; files are as they were before then."""
        with contextlib.ExitStack() as stack, _in_words():
            work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="portal-restore-")))
            self._keep_hub_out(stack)
            made: list[Path] = []
            stack.callback(remove_all, made)
            for target in (*self._files, *self._sqlite):
                self._stage(target, made)
            loadings = [
                self._loaded(kept, work, stack) for kept in self.manifest.databases if not kept.path
            ]
            self._ensure_stopped()
            self._replace(loadings)
        for target in (*self._files, *self._sqlite):
            for suffix in ("", *target.beside):
                forget(target.before(suffix))
        for loading, kept in loadings:
            try:
                upgrade_tables(loading.database, dict(kept.roles))
            except StoreUnavailable as error:
                raise StoreUnavailable(
                    f"Everything is restored, but the upgrade to this version has failed: "
                    f"{error.message} Run `portal database upgrade` and `jupyterhub upgrade-db` "
                    "before the Hub starts."
                ) from None

    def _keep_hub_out(self, stack: contextlib.ExitStack) -> None:
        """Hold the lock of the Hub's database, if that is a file (Loading holds PostgreSQL's).
        Raises Conflict while a Hub does, or another restore."""
        for target in self._sqlite:
            if not isinstance(target.kept, KeptDatabase) or "hub" not in target.kept.roles:
                continue
            folder = target.path.parent
            make_folder(folder, self.manifest.folders)
            with acting_as(writer_of(folder)):
                descriptor = hold(target.path, alone=True)
            if descriptor is None:
                raise Conflict(
                    f"A Hub uses {target.path}, or another restore writes it. Stop the Hub "
                    "(systemctl stop data-scientist-portal), then restore again. Nothing was "
                    "changed."
                )
            stack.callback(os.close, descriptor)

    def _ensure_stopped(self) -> None:
        ensure_stopped(
            Path(self.manifest.config_file),
            Path(self.manifest.directory) if self.manifest.directory else None,
            [target.path for target in self._sqlite],
            [target.path for target in self._files],
        )

    # -- staging ---------------------------------------------------------------------------------

    def _stage(self, target: Target, made: list[Path]) -> None:
        """Write the new file beside its place, and upgrade a database there."""
        kept, new = target.kept, target.new
        folder = target.path.parent
        make_folder(folder, self.manifest.folders)
        with acting_as(writer_of(folder)):
            made.append(new)
            new.unlink(missing_ok=True)
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "wb") as out:
                if kept.sealed:
                    out.write(self._reader.content(kept, self._seal))
                else:
                    for chunk in self._reader.chunks(kept):
                        out.write(chunk)
                out.flush()
                os.fsync(out.fileno())
            if isinstance(kept, KeptDatabase):
                made += [new.with_name(new.name + suffix) for suffix in (*_SIDECARS, ".lock")]
                database = SiteDatabase(
                    Address.read(f"sqlite:///{new}"), tuple(kept.roles), self.manifest.account
                )
                upgrade_tables(database, dict(kept.roles))
                with contextlib.closing(sqlite3.connect(new)) as connection:
                    connection.execute("PRAGMA journal_mode = DELETE")  # one file, for the rename
            give(new, kept)

    def _loaded(
        self, kept: KeptDatabase, work: Path, stack: contextlib.ExitStack
    ) -> tuple[Loading, KeptDatabase]:
        """Return the transaction in which a PostgreSQL database is loaded."""
        database = SiteDatabase(
            _address(kept, self._password(kept)), tuple(kept.roles), self.manifest.account
        )
        ensure_unused(database)
        dump = work / Path(kept.member).name
        with dump.open("xb") as out:
            for chunk in self._reader.chunks(kept):
                out.write(chunk)
        loading = stack.enter_context(Loading(database))
        loading.keep_hub_out()
        loading.load(dump)
        dump.unlink()
        return loading, kept

    def _password(self, kept: KeptDatabase) -> str:
        """Return the password that the configuration of the backup has for a database."""
        if self._seal is None:
            return ""
        for file in self._files:
            if file.kept.sealed and str(file.path) == kept.password_file:
                return self._reader.content(file.kept, self._seal).decode().strip()
        if self.manifest.passwords is None:
            return ""
        known = json.loads(self._reader.content(self.manifest.passwords, self._seal))
        return str(known.get(kept.url, ""))

    # -- the moment of change --------------------------------------------------------------------

    def _replace(self, loadings: list[tuple[Loading, KeptDatabase]]) -> None:
        """Put everything in its place; on an error, put back what was there."""
        undo: list[Callable[[], object]] = []
        try:
            for target in (*self._files, *self._sqlite):
                with acting_as(writer_of(target.path.parent)):
                    swap(target, undo)
            for loading, _ in loadings:
                loading.commit()
        except BaseException as error:
            done = [loading.database.place for loading, _ in loadings if loading.committed]
            if done:  # there is no way back
                raise StoreUnavailable(
                    f"{error} All files and {done[0]} are restored already; the former files wait "
                    f"beside them ({BEFORE}). Restore again when the other database answers."
                ) from None
            for step in reversed(undo):
                step()
            raise


def _address(kept: KeptDatabase, password: str) -> Address:
    """Return the address of a PostgreSQL database."""
    address = Address.read(kept.url, kept.password_file or "")
    if password:
        return Address(address.url.set(password=password))
    if kept.password_file and not Path(kept.password_file).exists():
        return Address(address.url)
    return address


@contextlib.contextmanager
def _in_words() -> Iterator[None]:
    """Turn errors of the system into sentences. Raises PortalError."""
    try:
        yield
    except OSError as error:
        where = error.filename2 or error.filename or "the disk"
        if disk.no_space(error):
            raise disk.DiskFull(
                "There is no space left for the restore: nothing was changed. It needs the size of "
                "the backup beside the files that it replaces."
            ) from None
        raise InvalidRequest(
            f"{where} cannot be written: {error.strerror}. Nothing was changed. Run this command "
            "as root, or as the account that owns these files."
        ) from None
    except sqlite3.Error as error:
        raise StoreUnavailable(
            f"A database cannot be written: {error}. Nothing was changed."
        ) from None
