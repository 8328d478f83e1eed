"""Restore of a backup: verified, staged beside what it replaces, then put in its place; what was
there stays beside it until everything has succeeded."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from jupyterhub.dbutil import write_alembic_ini

from portal import disk
from portal.errors import Conflict, InvalidRequest, StoreUnavailable
from portal.store.engine.address import Address
from portal.store.engine.upgrade import upgrade

from .account import acting_as, numbers_of, owner_of
from .archive import Reader
from .databases import SiteDatabase, head_of, newer_than_known
from .loading import Loading, ensure_unused
from .manifest import Folder, KeptDatabase, KeptFile, Manifest, Role
from .sealing import Seal
from .stopped import ensure_stopped

NEW, BEFORE = ".restore-new", ".before-restore"
_SIDECARS = ("-wal", "-shm", "-journal")  # of SQLite: never those of another database


@dataclass
class Target:
    """File that is replaced; ``beside``: SQLite's own, which go with the former one."""

    path: Path
    kept: KeptFile | KeptDatabase
    beside: tuple[str, ...] = ()

    @property
    def new(self) -> Path:
        return self.path.with_name(self.path.name + NEW)

    def before(self, suffix: str = "") -> Path:
        """Return where the former file, or one of its own, waits."""
        return self.path.with_name(self.path.name + BEFORE + suffix)


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
            lines.append(f"{' and '.join(kept.roles)}: {place}{_change(kept)}")
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
            made: list[Path] = []
            stack.callback(_remove, made)
            for target in (*self._files, *self._sqlite):
                self._stage(target, made)
            loadings = [
                self._loaded(kept, work, stack) for kept in self.manifest.databases if not kept.path
            ]
            self._ensure_stopped()
            self._replace(loadings)
        for target in (*self._files, *self._sqlite):
            for suffix in ("", *target.beside):
                _forget(target.before(suffix))
        for loading, kept in loadings:
            try:
                _upgrade(loading.database, dict(kept.roles))
            except StoreUnavailable as error:
                raise StoreUnavailable(
                    f"Everything is restored, but the upgrade to this version has failed: "
                    f"{error.message} Run `portal database upgrade` and `jupyterhub upgrade-db` "
                    "before the Hub starts."
                ) from None

    def _ensure_stopped(self) -> None:
        ensure_stopped(
            Path(self.manifest.config_file),
            [target.path for target in self._sqlite],
            [target.path for target in self._files],
        )

    # -- staging ---------------------------------------------------------------------------------

    def _stage(self, target: Target, made: list[Path]) -> None:
        """Write the new file beside its place, and upgrade a database there."""
        kept, new = target.kept, target.new
        folder = target.path.parent
        _make_folder(folder, self.manifest.folders)
        with acting_as(_writer(folder)):
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
                _upgrade(database, dict(kept.roles))
                with contextlib.closing(sqlite3.connect(new)) as connection:
                    connection.execute("PRAGMA journal_mode = DELETE")  # one file, for the rename
            _give(new, kept)

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
                with acting_as(_writer(target.path.parent)):
                    _swap(target, undo)
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


def _swap(target: Target, undo: list[Callable[[], object]]) -> None:
    """Rename the former file away and the new one to its place. SQLite's own files go first: a
    database must never meet the log of another one."""
    for suffix in (*target.beside, ""):
        current = target.path.with_name(target.path.name + suffix)
        before = target.before(suffix)
        if not (current.exists() or current.is_symlink()):
            continue
        if target.before().exists():  # of a restore that was killed: that one has the original
            current.unlink()
        else:
            current.rename(before)
        if before.exists() or before.is_symlink():
            undo.append(partial(before.replace, current))
    target.new.rename(target.path)
    undo.append(partial(target.path.unlink, missing_ok=True))
    _sync(target.path.parent)


def _forget(path: Path) -> None:
    """Remove a former file. Raises InvalidRequest."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise InvalidRequest(
            f"Everything is restored, but {path}, the former file, cannot be removed: "
            f"{error.strerror}. Remove it before the next restore."
        ) from None


def _make_folder(folder: Path, known: tuple[Folder, ...]) -> None:
    """Make a folder that is missing, as it was, and those above it."""
    if folder.is_dir():
        return
    _make_folder(folder.parent, known)
    folder.mkdir(0o755)
    for former in known:
        if former.path == str(folder):
            _own(folder, former.owner, former.group)
            folder.chmod(former.mode)


def _writer(folder: Path) -> str:
    """Return the owner of a folder: only as that one, root writes where others could have put a
    link."""
    return owner_of(folder.stat())[0]


def _give(path: Path, kept: KeptFile | KeptDatabase) -> None:
    _own(path, kept.owner, kept.group)
    path.chmod(kept.mode)


def _own(path: Path, owner: str, group: str) -> None:
    """Give a file to an account, if this one may. Raises InvalidRequest for an unknown account."""
    numbers = numbers_of(owner, group)
    if numbers is None:
        raise InvalidRequest(
            f"The account {owner} or the group {group}, which {path.parent} needs, is not known on "
            "this machine. Create it, then restore again. Nothing was changed."
        )
    status = path.stat()
    if (status.st_uid, status.st_gid) != numbers and os.geteuid() == 0:
        os.chown(path, *numbers, follow_symlinks=False)


def _remove(paths: list[Path]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


# -- databases -----------------------------------------------------------------------------------


def _address(kept: KeptDatabase, password: str) -> Address:
    """Return the address of a PostgreSQL database."""
    address = Address.read(kept.url, kept.password_file or "")
    if password:
        return Address(address.url.set(password=password))
    if kept.password_file and not Path(kept.password_file).exists():
        return Address(address.url)
    return address


def _change(kept: KeptDatabase) -> str:
    """Return words for the upgrade that the copy needs."""
    old = [role for role, revision in kept.roles.items() if revision not in ("", head_of(role))]
    return f", upgraded to this version's schema ({', '.join(old)})" if old else ""


def _upgrade(database: SiteDatabase, revisions: dict[Role, str]) -> None:
    """Upgrade the tables of an older version. Raises StoreUnavailable."""
    for role, revision in revisions.items():
        if revision in ("", head_of(role)):
            continue
        if role == "portal":
            with acting_as(database.account if database.address.path is None else ""):
                upgrade(database.address)
        else:
            _upgrade_hub(database)


def _upgrade_hub(database: SiteDatabase) -> None:
    address = database.address
    if address.path is not None:
        url = f"sqlite:///{address.path}"
    else:
        parsed = address.url.set(drivername="postgresql+psycopg")
        url = parsed.render_as_string(hide_password=False)
    with tempfile.TemporaryDirectory(prefix="portal-restore-") as folder:
        ini = Path(folder) / "alembic.ini"  # the folder is private: the URL may have a password
        write_alembic_ini(str(ini), url)
        done = subprocess.run(
            [sys.executable, "-m", "alembic", "-c", str(ini), "upgrade", "head"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise StoreUnavailable(
            f"The tables of the Hub in {database.place} cannot be upgraded: {last[0]}"
        )


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


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
