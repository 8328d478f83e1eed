"""Compressed copies of the static files that JupyterLab's page loads.

Only files whose name holds a hash of their content are copied: with those, a copy is never of
another version. ``python3 -I -m portal_session.compression`` makes the copies of an environment
when it is installed; what it lacks, the server makes once for each person (`static_files`).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

try:
    import brotli
except ImportError:  # an image of before, or a platform without a wheel
    brotli = None

# As webpack and JupyterLab's builder name files: 5361.6c4649b65b9b677d.js, cd7322bf5a6e6fcf.svg.
_NAME = re.compile(r"(?:.*\.)?[0-9a-f]{16,64}\.(?:css|js|json|svg)", re.ASCII)
_SIZES = range(1024, 32 * 1024 * 1024)  # bytes; a smaller file gains nothing
_MOST = 1000  # copies of one person in one environment; JupyterLab's page loads some 50 files
_PLACE = "share/portal-session/static"

# For Brotli and gzip. Ahead: quality 11 would take eight times as long for 8 % less. While a page
# waits: 45 MB a second on one core, and less to transfer than gzip's best.
_AHEAD = {"br": 9, "gzip": 9}
_AT_ONCE = {"br": 5, "gzip": 6}


class Original(NamedTuple):
    """A file that is worth a copy: its real path, its size in bytes, and its time in whole seconds,
    which is what images keep."""

    path: str
    size: int
    modified: int

    @property
    def key(self) -> str:
        """Return 32 hexadecimal digits that name the copies of this file in this state."""
        words = f"{self.path}\0{self.size}\0{self.modified}"
        return hashlib.sha256(words.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def original(path: str) -> Original | None:
    """Return the file at ``path`` as it is now; None unless it is worth a copy. Raises OSError."""
    if not _NAME.fullmatch(Path(path).name):
        return None
    real = Path(path).resolve()
    status = real.stat()
    if not stat.S_ISREG(status.st_mode) or status.st_size not in _SIZES:
        return None
    return Original(str(real), status.st_size, int(status.st_mtime))


def accepted(header: str) -> list[str]:
    """Return the codings that an ``Accept-Encoding`` header accepts, the best first."""
    refused, named = set(), set()
    for part in header.lower().split(","):
        coding, *parameters = (word.strip() for word in part.split(";"))
        named.add(coding)
        if any(re.fullmatch(r"q=0(\.0*)?", parameter) for parameter in parameters):
            refused.add(coding)
    return [coding for coding in codings() if coding in named - refused]


def codings() -> tuple[str, ...]:
    """Return the codings that can be made here, the best first."""
    return ("br", "gzip") if brotli else ("gzip",)


def compress(content: bytes, coding: str, levels: Mapping[str, int] = _AT_ONCE) -> bytes:
    """Return ``content`` in a coding of HTTP. Both libraries let other threads run meanwhile."""
    if coding == "br":
        return bytes(brotli.compress(content, quality=levels["br"]))
    compressor = zlib.compressobj(levels["gzip"], wbits=16 + zlib.MAX_WBITS)  # +16: gzip's header
    return compressor.compress(content) + compressor.flush()


class Store:
    """A folder of copies.

    ``personal``: it may lie where others can write, so only what is this account's own and
    writable by nobody else is read. Without it, the folder is trusted like the environment's code.
    """

    def __init__(self, folder: Path, personal: bool) -> None:
        self._folder = folder
        self._personal = personal
        self._pruned = False

    def read(self, file: Original, coding: str) -> bytes | None:
        """Return the copy of ``file``; None if there is none that can be trusted."""
        # O_NONBLOCK: a pipe of that name must not hold the server.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            number = os.open(self._path(file, coding), flags)
        except OSError:
            return None
        with os.fdopen(number, "rb") as copy:
            status = os.fstat(number)
            if not stat.S_ISREG(status.st_mode) or status.st_size >= file.size:
                return None
            return copy.read() if self._own(status) else None

    def write(self, file: Original, coding: str, content: bytes) -> None:
        """Keep a copy. Raises OSError if it cannot be written, or the folder is not to be
        trusted."""
        self._folder.mkdir(mode=0o700 if self._personal else 0o755, parents=True, exist_ok=True)
        if not self._own(os.lstat(self._folder)):
            raise PermissionError(f"{self._folder} is not only this account's")
        if not self._pruned:
            self._pruned = True
            self._prune()
        number, name = tempfile.mkstemp(dir=self._folder, prefix=".")
        new = Path(name)
        try:
            with os.fdopen(number, "wb") as copy:
                copy.write(content)
                if not self._personal:
                    os.fchmod(number, 0o644)
            new.replace(self._path(file, coding))
        except BaseException:
            new.unlink()
            raise

    def keep(self, files: Iterable[Original]) -> None:
        """Remove all copies but those of ``files``. Raises OSError."""
        keys = {file.key for file in files}
        for copy in self._folder.iterdir() if self._folder.exists() else ():
            if copy.name.partition(".")[0] not in keys:
                copy.unlink()

    def _path(self, file: Original, coding: str) -> Path:
        return self._folder / f"{file.key}.{coding}"

    def _own(self, status: os.stat_result) -> bool:
        if not self._personal:
            return True
        return status.st_uid == os.geteuid() and not status.st_mode & 0o022

    def _prune(self) -> None:
        """Remove the oldest half where copies of earlier versions have piled up."""
        with contextlib.suppress(OSError):  # another session does the same
            copies = sorted(self._folder.iterdir(), key=lambda copy: copy.lstat().st_mtime)
            for copy in copies[: len(copies) // 2] if len(copies) > _MOST else ():
                copy.unlink()


def environment_store() -> Store:
    """Return the store that was filled when this environment was installed."""
    return Store(Path(sys.prefix) / _PLACE, personal=False)


def personal_store(environ: Mapping[str, str]) -> Store | None:
    """Return the person's store in this environment; None without ``PYTHONUSERBASE``."""
    base = environ.get("PYTHONUSERBASE", "")
    return Store(Path(base) / _PLACE, personal=True) if base else None


def originals(folders: list[Path]) -> Iterator[Original]:
    """Find the files below ``folders`` that are worth a copy."""
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            with contextlib.suppress(OSError):  # a link to nowhere
                if file := original(str(path)):
                    yield file


def fill(store: Store, folders: list[Path]) -> int:
    """Put what is missing into ``store``, on all cores, and remove what is of other files; return
    how many files have copies. Raises OSError."""

    def copy(file: Original) -> None:
        missing = [coding for coding in codings() if store.read(file, coding) is None]
        content = Path(file.path).read_bytes() if missing else b""
        for coding in missing:
            store.write(file, coding, compress(content, coding, _AHEAD))

    files = list(originals(folders))
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        for _ in threads.map(copy, files):  # so that an error is raised
            pass
    store.keep(files)
    return len(files)


def main() -> None:
    """Fill the environment's store. Exits with a sentence if that cannot be written."""
    # Debian's Python has its own files below /usr and those of pip below /usr/local.
    roots = dict.fromkeys((Path(sys.prefix), Path("/usr/local")))
    folders = [root / "share/jupyter" / name for root in roots for name in ("lab", "labextensions")]
    try:
        number = fill(environment_store(), folders)
    except OSError as error:
        sys.exit(f"Static files cannot be precompressed: {error}")
    print(f"{number} static files are compressed in {Path(sys.prefix) / _PLACE}.")


if __name__ == "__main__":
    main()
