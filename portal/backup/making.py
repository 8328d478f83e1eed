"""Creation of a backup: copied beside its target, hashed, written, and put in its place at once."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import portal
from portal.disk import sync_folder
from portal.errors import Conflict, StoreUnavailable

from . import archive
from .account import owner_of
from .databases import (
    SiteDatabase,
    copy_sqlite,
    dump_postgresql,
    newer_than_known,
    without_password,
)
from .folder import NAME, in_words, locked
from .inventory import Inventory
from .manifest import (
    FORMAT,
    PASSWORDS,
    Folder,
    KeptDatabase,
    KeptFile,
    LeftOut,
    Manifest,
    Member,
)
from .sealing import SALT, Seal

_WORK = ".portal-backup-"  # prefix of the folder in which one is made


def make(found: Inventory, config_file: Path, target: Path, passphrase: str) -> Manifest:
    """Make a backup as the file ``target``, or as a new file of the folder ``target``; return its
    manifest. Nothing else stays. Raises PortalError."""
    now = datetime.datetime.now(datetime.UTC)
    folder, path = (target, target / now.strftime(NAME)) if target.is_dir() else (
        target.parent, target,
    )  # fmt: skip
    with locked(folder), in_words(folder):
        if path.exists() or path.is_symlink():
            raise Conflict(f"{path} exists already. Choose another name; nothing was changed.")
        for rest in folder.glob(f"{_WORK}*"):  # of one that was killed: the lock is ours
            shutil.rmtree(rest)
        work = Path(tempfile.mkdtemp(prefix=_WORK, dir=folder))
        try:
            manifest = _collected(found, config_file, work, passphrase, now)
            (work / "backup.tar").rename(path)
            sync_folder(folder)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return manifest


def _collected(
    found: Inventory, config_file: Path, work: Path, passphrase: str, now: datetime.datetime
) -> Manifest:
    """Write the archive ``backup.tar`` into the folder ``work``."""
    salt = os.urandom(SALT) if passphrase else b""
    seal = Seal(passphrase, salt) if passphrase else None
    left_out = list(found.left_out)
    contents: dict[str, Path | bytes] = {}
    databases = [_copied(database, work, contents) for database in found.databases]
    files: list[KeptFile] = []
    for path in found.files:
        secret = path in found.secrets
        if secret and seal is None:
            left_out.append(
                LeftOut(path=str(path), why="it is a secret, and there is no passphrase")
            )
            continue
        try:
            files.append(_kept(path, seal if secret else None, contents))
        except FileNotFoundError:
            continue  # removed meanwhile
        except OSError as error:
            left_out.append(LeftOut(path=str(path), why=f"{error.strerror}"))
    manifest = Manifest(
        format=FORMAT,
        portal=portal.__version__,
        commit=_commit(),
        made_at=now.isoformat(timespec="seconds"),
        account=found.account,
        config_file=str(config_file),
        directory=str(found.directory) if found.directory else None,
        salt=salt.hex(),
        databases=tuple(databases),
        files=tuple(files),
        folders=tuple(_folders({Path(kept.path) for kept in files} | _sqlite_files(found))),
        passwords=_passwords(found, seal, contents, left_out),
        left_out=tuple(left_out),
    )
    with (work / "backup.tar").open("xb") as out:
        os.fchmod(out.fileno(), 0o600)
        archive.write(out, manifest, contents, seal)
        out.flush()
        os.fsync(out.fileno())
    return manifest


def _copied(database: SiteDatabase, work: Path, contents: dict[str, Path | bytes]) -> KeptDatabase:
    address = database.address
    sqlite = address.path is not None
    name = f"databases/{'-'.join(database.roles)}.{'sqlite' if sqlite else 'pgdump'}"
    copy = work / Path(name).name
    revisions = (copy_sqlite if sqlite else dump_postgresql)(database, copy)
    for role, revision in revisions.items():
        if newer_than_known(role, revision):
            raise StoreUnavailable(
                f"{database.place} has the version {revision}, which this installation does not "
                "know: make the backup with the version of the portal that uses it."
            )
    contents[name] = copy
    status = address.path.stat() if address.path else None
    owner, group = owner_of(status) if status else (database.account, database.account)
    with copy.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return KeptDatabase(
        member=name,
        size=copy.stat().st_size,
        sha256=digest,
        roles=revisions,
        url=f"sqlite:///{address.path}" if address.path else without_password(address.url),
        path=str(address.path) if address.path else None,
        password_file=str(address.password_file) if address.password_file else None,
        mode=stat.S_IMODE(status.st_mode) if status else 0o600,
        owner=owner,
        group=group,
    )


def _member(name: str, content: bytes, seal: Seal | None) -> tuple[dict[str, Any], bytes]:
    """Return the fields of a Member, and the content as it is stored."""
    if seal is not None:
        name += ".sealed"
        content = seal.close(name, content)
    digest = hashlib.sha256(content).hexdigest()
    fields = {"member": name, "size": len(content), "sha256": digest, "sealed": seal is not None}
    return fields, content


def _kept(path: Path, seal: Seal | None, contents: dict[str, Path | bytes]) -> KeptFile:
    """Read a file into ``contents``. Raises OSError."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        fields, content = _member(f"files{path}", file.read(), seal)
    contents[fields["member"]] = content
    owner, group = owner_of(status)
    mode = stat.S_IMODE(status.st_mode)
    return KeptFile(**fields, path=str(path), mode=mode, owner=owner, group=group)


def _passwords(
    found: Inventory,
    seal: Seal | None,
    contents: dict[str, Path | bytes],
    left_out: list[LeftOut],
) -> Member | None:
    """Keep passwords that stand in the databases' URLs."""
    passwords = {
        without_password(database.address.url): str(database.address.url.password)
        for database in found.databases
        if database.address.url.password and database.address.password_file is None
    }
    if not passwords:
        return None
    if seal is None:
        for url in passwords:
            left_out.append(LeftOut(path=f"the password of {url}", why="there is no passphrase"))
        return None
    fields, content = _member(
        PASSWORDS.removesuffix(".sealed"), json.dumps(passwords).encode(), seal
    )
    contents[PASSWORDS] = content
    return Member(**fields)


def _sqlite_files(found: Inventory) -> set[Path]:
    return {database.address.path for database in found.databases if database.address.path}


def _folders(paths: set[Path]) -> Iterator[Folder]:
    for folder in sorted({path.parent for path in paths}):
        status = folder.stat()
        owner, group = owner_of(status)
        mode = stat.S_IMODE(status.st_mode)
        yield Folder(path=str(folder), mode=mode, owner=owner, group=group)


def _commit() -> str:
    """Return the commit of this checkout; "" for an installed package."""
    root = Path(portal.__file__).resolve().parents[1]
    if not (root / ".git").exists():
        return ""
    done = subprocess.run(
        ["git", "-C", root, "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()
