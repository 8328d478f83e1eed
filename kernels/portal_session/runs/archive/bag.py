"""Bag in a zip file (RFC 8493), written in one pass: a file of 50 GB needs no memory and no second
copy on the disk."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import zipfile
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any

from .. import RunError

MOST_FILES = 1_000_000
_AT_ONCE = 1024 * 1024  # bytes that are read at once
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_VERSION = "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"
_OLDEST = (1980, 1, 1, 0, 0, 0)  # time that a zip file can have


class Bag:
    """Bag ``name`` that is written to ``file``. ``left_out``: links, and what is no file."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        # Level 1: checkpoints are hardly smaller at any, and it keeps up with a disk.
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
        self._name = name
        self._files: dict[str, str] = {}  # SHA-256 by path, of what is archived
        self._tags: dict[str, str] = {}  # and of what describes it
        self._bytes = 0
        self.left_out: list[str] = []

    def __enter__(self) -> Bag:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if error is not None:  # such as a full disk's: it is raised as it is
            with contextlib.suppress(OSError, ValueError):
                self._zip.close()

    @property
    def size(self) -> tuple[int, int]:
        """Numbers of bytes and files that are archived."""
        return self._bytes, len(self._files)

    def add_folder(self, folder: Path) -> None:
        """Add the files of a folder, and of those in it; links are not followed. Raises RunError,
        OSError."""
        for place, folders, names, descriptor in os.fwalk(folder, onerror=_raise):
            folders.sort()
            links = [name for name in folders if Path(place, name).is_symlink()]
            for name in sorted([*names, *links]):
                path = Path(place, name)
                inside = str(path.relative_to(folder))
                try:
                    inside.encode()
                except UnicodeEncodeError:
                    raise RunError(f"{inside!a} is not UTF-8. Rename the file.") from None
                if name in links or not _is_file(name, descriptor):
                    self.left_out.append(inside)
                    continue
                if len(self._files) >= MOST_FILES:
                    raise RunError(
                        f"The run has more than {MOST_FILES:,} files. Pack some of them."
                    )
                # Another user may have put a link there meanwhile.
                opened = os.open(name, _READ, dir_fd=descriptor)
                with os.fdopen(opened, "rb") as file:
                    self._files[f"data/{inside}"] = self._add(f"data/{inside}", file)

    def describe(self, path: str, content: Any) -> None:
        """Add a file that describes the bag: a text, or JSON of anything else."""
        text = content if isinstance(content, str) else json.dumps(content, indent=1) + "\n"
        data = text.encode()
        with self._zip.open(self._entry(path), "w") as entry:
            entry.write(data)
        self._tags[path] = hashlib.sha256(data).hexdigest()

    def close(self, about: dict[str, str]) -> None:
        """Write the manifests. ``about``: lines of bag-info.txt, a label and a value each."""
        self.describe("bagit.txt", _VERSION)
        size = {"Payload-Oxum": f"{self._bytes}.{len(self._files)}"}
        lines = [f"{label}: {_line(value)}\n" for label, value in {**about, **size}.items()]
        self.describe("bag-info.txt", "".join(lines))
        self.describe("manifest-sha256.txt", _manifest(self._files))
        self.describe("tagmanifest-sha256.txt", _manifest(self._tags))
        self._zip.close()

    def _add(self, path: str, file: IO[bytes]) -> str:
        """Add a file; return the SHA-256 of what was read, which may still grow."""
        digest, about = hashlib.sha256(), os.fstat(file.fileno())
        changed = datetime.fromtimestamp(about.st_mtime, timezone.utc)
        with self._zip.open(self._entry(path, changed), "w", force_zip64=True) as entry:
            while piece := file.read(_AT_ONCE):
                digest.update(piece)
                entry.write(piece)
                self._bytes += len(piece)
        return digest.hexdigest()

    def _entry(self, path: str, changed: datetime | None = None) -> zipfile.ZipInfo:
        when = (changed or datetime.now(timezone.utc)).timetuple()[:6]
        entry = zipfile.ZipInfo(f"{self._name}/{path}", max(when, _OLDEST))
        entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
        return entry


def _is_file(name: str, folder: int) -> bool:
    return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


def _raise(error: OSError) -> None:
    raise error


def _manifest(digests: dict[str, str]) -> str:
    # RFC 8493, 2.1.3: these three characters are percent-encoded.
    coded = {
        path.replace("%", "%25").replace("\n", "%0A").replace("\r", "%0D"): digest
        for path, digest in digests.items()
    }
    return "".join(f"{digest}  {path}\n" for path, digest in coded.items())


def _line(text: str) -> str:
    return " ".join(text.split())
