"""Atomic writes of the catalog's files, never over somebody else's changes."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from pathlib import Path

from portal.disk import sync_folder
from portal.errors import Conflict, Unavailable

from .reading import hash_of


class CatalogNotWritable(Conflict):
    """Missing right of the service's account to write into the catalog's folder."""

    code = "catalog_not_writable"


def write_file(path: Path, text: str, known: str | None) -> str:
    """Write ``text`` to ``path`` with mode 0644; return the hash of its bytes. Blocks.

    ``known``: the hash of the file that is there; "": there may be none; None: any. Raises
    CatalogNotWritable; Conflict if the file does not match ``known``; Unavailable if the disk is
    full or fails. The old file then stays as it was.
    """
    raw = text.encode()
    new = path.with_name(f".{path.name}.{secrets.token_hex(6)}.new")
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(raw)
                file.flush()
                os.fchmod(file.fileno(), 0o644)  # whatever the umask is: the Hub reads it too
                os.fsync(file.fileno())
            _demand(path, known)
            new.replace(path)
        finally:
            with contextlib.suppress(OSError):
                new.unlink()
        sync_folder(path.parent)
    except OSError as error:
        raise _error_of(path, error) from None
    return hash_of(raw)


def remove_file(path: Path) -> None:
    """Remove ``path``, if it exists. Blocks. Raises CatalogNotWritable, Unavailable."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise _error_of(path, error) from None


def _demand(path: Path, known: str | None) -> None:
    if known is None:
        return
    try:
        now = hash_of(path.read_bytes())
    except FileNotFoundError:
        now = ""
    if now != known:
        what = "was changed by hand" if known else "already exists with other content"
        raise Conflict(
            f"{path} {what}. Nothing was written. Check the file, fix or remove it, and try again."
        )


def _error_of(path: Path, error: OSError) -> Conflict | Unavailable:
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return CatalogNotWritable(
            f"The portal's service cannot write to {path.parent}, which is managed by hand. "
            f"Save the definition there as {path.name}, or give the service's account write "
            "access to the folder."
        )
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Unavailable(f"There is no space left in {path.parent}; nothing was changed.")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return Unavailable(f"{path.parent} does not exist; nothing was changed.")
    return Unavailable(f"{path} could not be written ({error.strerror}); nothing was changed.")
