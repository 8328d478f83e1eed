"""Files of uploads. What has arrived is in the target's folder, as a hidden file ``.NAME.ID.part``,
which gets its name once it is whole; what is known of an upload is in the user's data folder.

The folder may be one that others write to: everything in it is reached by the folder's descriptor,
without following a link, and a part is written only while it is the file that was made here.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import stat
import time
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ..publication import publish
from . import UploadError
from .folders import check_inside, open_folder, real_path

KEPT = 7 * 24 * 3600.0  # seconds without news after which an unfinished upload is removed
MOST = 50  # unfinished uploads of a user
LONGEST_NAME = 240  # bytes: a part's name is 15 longer, and file systems take 255
_FINISHED = 1000  # of late, whose clients may ask once more
_ID = re.compile(r"[0-9a-f]{32}")
_PART = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Upload(NamedTuple):
    """Upload of ``length`` bytes to ``folder``/``name``; ``inode`` is its part's. ``replace``: a
    file of that name is replaced. ``modified``: what the client says of the file's last change, by
    which it knows the same file again."""

    id: str
    folder: str
    name: str
    length: int
    inode: int
    replace: bool = False
    modified: str = ""

    @property
    def part(self) -> str:
        """Name of the file until it is whole."""
        return f".{self.name}.{self.id[:8]}.part"

    @property
    def target(self) -> Path:
        return Path(self.folder, self.name)

    @contextlib.contextmanager
    def opened(self) -> Iterator[tuple[int, int]]:
        """Open the folder, and the part to write it. Raises UploadError if that is gone or another
        file."""
        try:
            folder = open_folder(Path(self.folder), links=False)
        except OSError as error:
            raise self._gone(error) from None
        try:
            try:
                part = os.open(self.part, _PART, dir_fd=folder)
            except OSError as error:
                raise self._gone(error) from None
            try:
                about = os.fstat(part)
                own = stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid()
                if not own or about.st_ino != self.inode or about.st_nlink != 1:
                    raise UploadError(
                        f"{self.folder}/{self.part} was replaced by another file. Begin again.", 410
                    )
                yield folder, part
            finally:
                os.close(part)
        finally:
            os.close(folder)

    def _gone(self, error: OSError) -> UploadError:
        return UploadError(f"{self.folder}/{self.part}: {error.strerror}. Begin again.", 410)


class Uploads:
    """Uploads of the user, whose records are in ``place``. ``root``: where relative folders are;
    ``project``: the folder of the session's project. All methods block."""

    def __init__(self, place: Path, root: Path, project: Path | None = None) -> None:
        self.place, self.root, self.project = place, root, project
        self._finished: OrderedDict[str, Upload] = OrderedDict()

    def begin(
        self, folder: str, name: str, length: int, replace: bool = False, modified: str = ""
    ) -> Upload:
        """Begin an upload. Raises UploadError."""
        _check_names(folder, name)
        path = self.root / folder
        try:
            opened = open_folder(path)
        except OSError as error:
            raise UploadError(
                f"{path} is no folder that you can use: {error.strerror}.", 404
            ) from None
        try:
            real = real_path(opened)
            check_inside(path, real, self.project)
            upload = Upload(
                secrets.token_hex(16), str(real), name, length, 0, replace, modified[:40]
            )
            _check_free(upload, opened)
            self._check_number()
            try:
                part = os.open(upload.part, _PART | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=opened)
            except OSError as error:
                raise _refusal(upload, error) from None
            with contextlib.closing(os.fdopen(part, "wb", buffering=0)):
                upload = upload._replace(inode=os.fstat(part).st_ino)
            try:
                self._write(upload)
            except OSError as error:
                os.unlink(upload.part, dir_fd=opened)
                raise UploadError(f"{self.place}: {error.strerror}.", 507) from None
        finally:
            os.close(opened)
        if length == 0:
            self.complete(upload)
        return upload

    def find(self, id: str) -> Upload:
        """Return an upload. Raises UploadError if there is none."""
        if id in self._finished:
            return self._finished[id]
        try:
            if not _ID.fullmatch(id):
                raise ValueError(id)
            return Upload(**json.loads((self.place / f"{id}.json").read_text()))
        except (OSError, ValueError, TypeError):
            raise UploadError("There is no such upload. Begin again.", 404) from None

    def offset(self, upload: Upload) -> int:
        """Return how many bytes have arrived. Raises UploadError."""
        if upload.id in self._finished:
            return upload.length
        with upload.opened() as (_, part):
            return os.fstat(part).st_size

    def append(self, upload: Upload, offset: int, data: bytes) -> None:
        """Write ``data`` at ``offset``, the part's end. Raises UploadError."""
        with upload.opened() as (_, part):
            view = memoryview(data)
            try:
                while view:
                    written = os.pwrite(part, view, offset)
                    view, offset = view[written:], offset + written
            except OSError as error:
                raise _refusal(upload, error) from None

    def complete(self, upload: Upload) -> None:
        """Give the whole part its name. Raises UploadError if that is taken by now."""
        if upload.id in self._finished:
            return
        with upload.opened() as (folder, part):
            try:
                os.fsync(part)
                _publish(upload, folder, part)
            except OSError as error:
                raise _refusal(upload, error) from None
        self._finished[upload.id] = upload
        while len(self._finished) > _FINISHED:
            self._finished.popitem(last=False)
        (self.place / f"{upload.id}.json").unlink(missing_ok=True)

    def keep(self, upload: Upload) -> None:
        """Note that bytes have arrived, so that the upload is kept."""
        with contextlib.suppress(OSError):
            os.utime(self.place / f"{upload.id}.json")

    def remove(self, upload: Upload) -> None:
        """Remove an upload and, if it is not whole, its part."""
        if self._finished.pop(upload.id, None) is None:
            with contextlib.suppress(UploadError, OSError), upload.opened() as (folder, _):
                os.unlink(upload.part, dir_fd=folder)
        (self.place / f"{upload.id}.json").unlink(missing_ok=True)

    def unfinished(self) -> list[dict[str, Any]]:
        """List the uploads that are not whole, each with its ``offset``. Those without news for
        KEPT, and those whose part is gone, are removed."""
        items = []
        for path in sorted(self.place.glob("*.json")):
            with contextlib.suppress(UploadError, OSError):
                upload = self.find(path.stem)
                offset = -1
                if time.time() - path.stat().st_mtime <= KEPT:
                    with contextlib.suppress(UploadError):
                        offset = self.offset(upload)
                if offset < 0:
                    self.remove(upload)
                else:
                    about = {"id": upload.id, "folder": upload.folder, "name": upload.name}
                    more = {"length": upload.length, "modified": upload.modified}
                    items.append({**about, **more, "offset": offset})
        return items

    def _check_number(self) -> None:
        left = len(self.unfinished())
        if left >= MOST:
            raise UploadError(f"You have {left} unfinished uploads: finish or remove some.", 429)

    def _write(self, upload: Upload) -> None:
        self.place.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = self.place / f"{upload.id}.new"
        new.write_text(json.dumps(upload._asdict()))
        new.replace(self.place / f"{upload.id}.json")


def _check_names(folder: str, name: str) -> None:
    """Raise UploadError for names that no file should have."""
    if not name or "/" in name or name in (".", "..") or len(os.fsencode(name)) > LONGEST_NAME:
        raise UploadError(
            f"The name of a file must have 1 to {LONGEST_NAME} bytes, without '/'. Rename it."
        )
    if not (name + folder).isprintable():
        raise UploadError("A name must not have control characters. Rename the file.")


def _check_free(upload: Upload, folder: int) -> None:
    """Raise UploadError if the name is taken, or the space not free."""
    with contextlib.suppress(FileNotFoundError):
        about = os.stat(upload.name, dir_fd=folder, follow_symlinks=False)
        if not upload.replace:
            raise UploadError(f"{upload.target} exists. Choose another name or replace it.", 409)
        if not stat.S_ISREG(about.st_mode):
            raise UploadError(f"{upload.target} is not a file, so it cannot be replaced.", 400)
    disk = os.fstatvfs(folder)
    if upload.length > disk.f_bavail * disk.f_frsize:
        free = disk.f_bavail * disk.f_frsize // 10**6
        raise UploadError(
            f"{upload.folder} has {free:,} MB of free space, and the file needs "
            f"{upload.length // 10**6:,} MB. Delete files there, or choose another folder.",
            413,
        )


def _publish(upload: Upload, folder: int, part: int) -> None:
    """Give the open part its name. Raises UploadError, OSError."""
    if upload.replace:
        os.rename(upload.part, upload.name, src_dir_fd=folder, dst_dir_fd=folder)
        return
    try:
        publish(part, upload.part, upload.name, folder)
    except FileExistsError:
        raise UploadError(
            f"{upload.target} exists by now. Rename or delete it, then resume the upload.", 423
        ) from None


def _refusal(upload: Upload, error: OSError) -> UploadError:
    """Return the error for what the file system has refused."""
    if error.errno in _FULL:
        return UploadError(
            f"The disk of {upload.folder}, or your quota there, is full. Delete files, then resume "
            "the upload.",
            507,
        )
    if error.errno == errno.EROFS:
        return UploadError(f"{upload.folder} is read-only here. Choose another folder.", 403)
    if error.errno in (errno.EACCES, errno.EPERM):
        return UploadError(f"You may not write to {upload.folder}. Choose another folder.", 403)
    return UploadError(f"{upload.target}: {error.strerror}.", 500)
