"""The one file of a backup: a tar archive that begins with its manifest."""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import stat
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from pydantic import ValidationError

from portal.errors import Conflict, InvalidRequest

from .manifest import FORMAT, NAME, SEAL, SUM, Manifest, Member
from .sealing import Seal

_CHUNK = 1 << 20
_MOST_OF_MANIFEST = 64 << 20
_MOST_IN_MEMORY = 64 << 20  # bytes of an encrypted file


def write(
    out: BinaryIO, manifest: Manifest, contents: Mapping[str, Path | bytes], seal: Seal | None
) -> None:
    """Write the archive. ``contents`` has each member of the manifest by its name. Raises
    OSError."""
    text = manifest.model_dump_json(indent=1).encode()
    first: dict[str, Path | bytes] = {
        NAME: text,
        SUM: hashlib.sha256(text).hexdigest().encode(),
    }
    if seal is not None:
        first[SEAL] = seal.close(SEAL, hashlib.sha256(text).digest())
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in {**first, **contents}.items():
            entry = tarfile.TarInfo(name)
            entry.mode = 0o600
            if isinstance(content, bytes):
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
            else:
                with content.open("rb") as file:
                    entry.size = os.fstat(file.fileno()).st_size
                    tar.addfile(entry, file)


class Reader:
    """A backup that is read. Close it after use.

    Raises InvalidRequest for a file that is no backup, or whose manifest is damaged; Conflict while
    another restore reads it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise InvalidRequest(f"{path} cannot be read: {error.strerror}.") from None
        try:
            self._ensure_alone()
            self._read()
        except BaseException:
            self._file.close()
            raise

    def _ensure_alone(self) -> None:
        status = os.fstat(self._file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise InvalidRequest(f"{self.path} is not a file.")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(f"Another process restores {self.path} now.") from None

    def _read(self) -> None:
        try:
            self._tar = tarfile.open(fileobj=self._file, mode="r:")  # noqa: SIM115  closed in close
            self._entries = {entry.name: entry for entry in self._tar.getmembers()}
        except (tarfile.TarError, OSError, ValueError, EOFError, OverflowError):
            raise self._damaged() from None
        try:
            self._text = self._whole(NAME, _MOST_OF_MANIFEST)
            told = self._whole(SUM, 64)
        except KeyError:
            raise InvalidRequest(f"{self.path} is no backup of the portal.") from None
        self._digest = hashlib.sha256(self._text)
        if self._digest.hexdigest().encode() != told:
            raise self._damaged()
        try:
            number = json.loads(self._text).get("format")
            if number != FORMAT:
                raise InvalidRequest(
                    f"{self.path} has the format {number}, this portal reads {FORMAT}: it was made "
                    "by a newer version. Restore it with that version."
                )
            self.manifest = Manifest.model_validate_json(self._text)
        except (ValidationError, ValueError, AttributeError):
            raise self._damaged() from None

    def verify(self, seal: Seal | None) -> None:
        """Check the hash of every member; with ``seal``, that the passphrase is right and the
        manifest is the one that was written. Raises InvalidRequest."""
        if seal is None:
            self._ensure_trusted()
        else:
            try:
                sealed = self._whole(SEAL, 1024)
            except KeyError:
                raise self._damaged() from None
            if seal.open(SEAL, sealed) != self._digest.digest():
                raise self._damaged()
        for member in self.manifest.members:
            for _ in self.chunks(member):
                pass

    def _ensure_trusted(self) -> None:
        """Raise InvalidRequest if another account could have written the file: without the
        passphrase, nothing tells whether it did."""
        status = os.fstat(self._file.fileno())
        if status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022:
            raise InvalidRequest(
                f"Others can change {self.path}, and so what is restored from it. Restore it with "
                "its passphrase; or, if you trust it, copy it to a folder of your own, with mode "
                "0600, and restore the copy. Nothing was changed."
            )

    def chunks(self, member: Member) -> Iterator[bytes]:
        """Yield the member as it is stored; raise InvalidRequest at its end, or before, if it is
        not what was written."""
        digest, size = hashlib.sha256(), 0
        try:
            file = self._tar.extractfile(self._entries[member.member])
            while file is not None and (chunk := file.read(_CHUNK)):
                digest.update(chunk)
                size += len(chunk)
                yield chunk
        except (KeyError, tarfile.TarError, OSError, ValueError):
            raise self._damaged(member) from None
        if size != member.size or digest.hexdigest() != member.sha256:
            raise self._damaged(member)

    def content(self, member: Member, seal: Seal | None) -> bytes:
        """Return a member, decrypted. Raises InvalidRequest."""
        if member.size > _MOST_IN_MEMORY:
            raise self._damaged(member)
        data = b"".join(self.chunks(member))
        if not member.sealed:
            return data
        if seal is None:
            raise InvalidRequest(f"{member.member} is encrypted: the passphrase is needed.")
        return seal.open(member.member, data)

    def close(self) -> None:
        """Close the file, and let another process have it."""
        self._tar.close()
        self._file.close()

    def _whole(self, name: str, most: int) -> bytes:
        """Return a member of at most ``most`` bytes. Raises KeyError if it is missing."""
        entry = self._entries[name]
        if not entry.isreg() or entry.size > most:
            raise self._damaged()
        try:
            file = self._tar.extractfile(entry)
            data = file.read() if file is not None else b""
        except (tarfile.TarError, OSError, ValueError):
            raise self._damaged() from None
        if len(data) != entry.size:
            raise self._damaged()
        return data

    def _damaged(self, member: Member | None = None) -> InvalidRequest:
        what = f": {member.member} is not what was written" if member else ""
        return InvalidRequest(
            f"{self.path} is damaged or not complete{what}. Nothing was restored. Use another "
            "backup."
        )
