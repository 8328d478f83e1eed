"""Packer: one folder becomes one image, by mksquashfs, as the user. The folder stays as it is."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import stat
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Callable

from ..runs.disk import strangers_may_replace
from . import PackingError
from .places import ENDING, Places, check_name

MOST_FILES = 20_000_000  # mksquashfs keeps about 100 bytes of memory for each
MEMORY = "256M"  # its buffers; its default is a quarter of the node's memory
MARGIN = 64 * 1024 * 1024  # bytes that stay free
_PROGRESS = re.compile(rb"(\d{1,3})%")
_WITHOUT = (
    "mksquashfs is missing here. Pack in a session of an environment that is not a container, if "
    "its nodes have it, or ask your admin for squashfs-tools in this environment."
)
_OLD = "mksquashfs here is too old ({}). Ask your admin for a newer squashfs-tools."


@dataclass
class Progress:
    """State of the packing of a folder: "counting", "packing", "packed", "failed" or "cancelled";
    ``words`` is a sentence."""

    folder: str
    name: str
    image: str
    state: str = "counting"
    words: str = ""
    percent: int = 0
    files: int = 0
    bytes: int = 0

    @property
    def living(self) -> bool:
        """Return True while it goes on."""
        return self.state in ("counting", "packing")

    def as_dict(self) -> dict[str, Any]:
        """Return the state as JSON."""
        return asdict(self)


class Packer:
    """Packer of a session, for one folder at a time. ``done`` is called with the name of each
    packed folder, in the packer's thread, and returns what to add to the sentence."""

    def __init__(self, home: Path, processors: int, done: Callable[[str], str]) -> None:
        self.places = Places(home)
        self._home, self._processors, self._done = home, processors, done
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._work: threading.Thread | None = None
        self._cancelled = False
        self.progress: Progress | None = None

    def start(self, folder: str, image: str = "", name: str = "") -> Progress:
        """Begin to pack ``folder`` into a new file ``image``, by default beside the folder, else in
        the home. Returns at once. Raises PackingError."""
        program = shutil.which("mksquashfs")
        if program is None:
            raise PackingError(_WITHOUT, 503)
        source = self._folder(folder)
        name = check_name(name or source.name)
        target = self._image(source, image, name)
        with self._lock:
            if self.progress is not None and self.progress.living:
                raise PackingError(
                    f"{self.progress.folder} is being packed. Wait for its end.", 409
                )
            self.places.check_free(name)
            self._cancelled = False
            self.progress = Progress(str(source), name, str(target))
            self._work = threading.Thread(
                target=self._pack, args=(program, source, target), name="packing", daemon=True
            )
            self._work.start()
            return self.progress

    def cancel(self) -> None:
        """Stop packing; nothing is left."""
        self._cancelled = True
        process = self._process
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """Stop packing at the server's end, and wait until nothing is left of it."""
        self.cancel()
        if self._work is not None:
            self._work.join(5)

    def _folder(self, folder: str) -> Path:
        path = Path(folder).expanduser()
        if not folder or "\0" in folder or not path.is_absolute():
            raise PackingError(f"{folder[:200]!r} is not an absolute path of a folder.")
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError):
            raise PackingError(f"{path} does not exist.", 404) from None
        if not real.is_dir() or not os.access(real, os.R_OK | os.X_OK):
            raise PackingError(f"{path} is not a folder that you may read.")
        if self._home.resolve().is_relative_to(real):
            raise PackingError(f"{path} contains your home. Choose a folder with data.")
        return real

    def _image(self, source: Path, image: str, name: str) -> Path:
        if image:
            target = Path(image).expanduser()
        else:
            beside = os.access(source.parent, os.W_OK | os.X_OK)
            fit = beside and not strangers_may_replace(source.parent)
            target = (source.parent if fit else self._home) / f"{name}{ENDING}"
        if not target.is_absolute() or not target.parent.is_dir():
            raise PackingError(
                f"{target.parent} is not a folder. Choose another place for the image."
            )
        target = target.parent.resolve() / target.name
        if strangers_may_replace(target.parent):
            raise PackingError(
                f"Every user may exchange files in {target.parent}, and sessions would bind "
                "theirs. Choose another place for the image."
            )
        if target.is_relative_to(source):
            raise PackingError(f"The image {target} would be in the folder that it is made of.")
        if target.is_symlink() or target.exists():
            raise PackingError(f"{target} exists already. Delete it, or choose another place.", 409)
        return target

    def _pack(self, program: str, source: Path, target: Path) -> None:
        progress = self.progress
        assert progress is not None
        part = target.with_name(f".{target.name}.{os.getpid()}.part")
        descriptor = -1
        try:
            self._count(source, progress)
            self._check_space(target, progress)
            progress.state = "packing"
            # No other program may find it half-made, or put a link there: members of a group may
            # exchange what is in its folders, so the file is known by its descriptor from here on.
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(part, flags, 0o600)
            self._run(program, source, descriptor, progress)
            self._publish(part, descriptor, target)
            try:
                self.places.add_link(progress.name, target)
            except BaseException:
                target.unlink()
                raise
            more = self._done(progress.name)
            size = _size(target.stat().st_size)
            progress.percent = 100
            files = "1 file is" if progress.files == 1 else f"{progress.files:,} files are"
            progress.words = f"{files} in {target} ({size}). {more}"
            progress.state = "packed"
        except PackingError as error:
            progress.words = _printable(str(error))
            progress.state = "cancelled" if self._cancelled else "failed"
        except OSError as error:
            progress.words = f"{target} cannot be written: {error.strerror}."
            progress.state = "failed"
        finally:
            self._process = None
            if descriptor >= 0:
                os.close(descriptor)
                with contextlib.suppress(OSError):
                    part.unlink()

    def _count(self, source: Path, progress: Progress) -> None:
        for size in _sizes(source):
            if self._cancelled:
                raise PackingError("Packing was cancelled.")
            progress.files += 1
            progress.bytes += size
            if progress.files > MOST_FILES:
                raise PackingError(
                    f"{source} has more than {MOST_FILES:,} files. Pack its folders."
                )
        if not progress.files:
            raise PackingError(f"{source} has no files.")

    def _check_space(self, target: Path, progress: Progress) -> None:
        # What is packed may take as much as before: pictures and the like are compressed already.
        needed = progress.bytes + MARGIN
        free = shutil.disk_usage(target.parent).free
        if free < needed:
            raise PackingError(
                f"{target.parent} has {_size(free)} free, and the image may take "
                f"{_size(needed)}. Choose another place for the image."
            )

    def _run(self, program: str, source: Path, image: int, progress: Progress) -> None:
        """Run mksquashfs, which writes to the descriptor ``image``. A file that it cannot read ends
        it: else the image would have an empty one in its place."""
        argv = [
            program,
            str(source),
            f"/proc/self/fd/{image}",
            "-noappend",
            "-exit-on-error",
            "-no-xattrs",
        ]
        # The compression that every squashfuse and kernel reads.
        argv += ["-comp", "gzip", "-Xcompression-level", "1"]
        argv += ["-progress", "-mem", MEMORY, "-processors", str(self._processors)]
        environment = {**os.environ, "LC_ALL": "C"}
        self._process = process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            pass_fds=(image,),
        )
        if self._cancelled:
            self.cancel()
        assert process.stdout is not None
        said = b""
        while chunk := process.stdout.read1(4096):  # type: ignore[attr-defined]
            said = (said + chunk)[-8192:]
            shares = _PROGRESS.findall(chunk)
            if shares:
                progress.percent = min(100, int(shares[-1]))
        if process.wait() == 0:
            return
        if self._cancelled:
            raise PackingError("Packing was cancelled.")
        raise PackingError(_reason(said.decode(errors="replace")))

    def _publish(self, part: Path, image: int, target: Path) -> None:
        """Give the image its name, unless a file has it meanwhile. ``part``: its present one."""
        umask = os.umask(0)
        os.umask(umask)
        os.fchmod(image, 0o666 & ~umask)
        try:
            # Of the open file, as for O_TMPFILE in open(2); given one, linkat follows links.
            os.link(f"/proc/self/fd/{image}", target, src_dir_fd=image)
        except FileExistsError:
            raise PackingError(f"{target} exists meanwhile. Nothing was changed.", 409) from None
        except OSError:  # a file system without hard links
            try:
                same = os.path.samestat(part.lstat(), os.fstat(image))
            except OSError:
                same = False
            if not same:
                raise PackingError(
                    f"Another user has exchanged {part.name} in {part.parent}. Choose a folder for "
                    "the image that is yours alone."
                ) from None
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            part.replace(target)


def _sizes(folder: Path) -> Iterator[int]:
    """Iterate over the sizes of all entries below a folder that are no folders. Raises PackingError
    for what cannot be read."""
    folders = [folder]
    while folders:
        place = folders.pop()
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(Path(entry.path))
                        continue
                    status = entry.stat(follow_symlinks=False)
                    yield status.st_size if stat.S_ISREG(status.st_mode) else 0
        except OSError as error:
            raise PackingError(f"{place} cannot be read: {error.strerror}.") from None


def _reason(said: str) -> str:
    """Return why mksquashfs has failed, from what it said."""
    lines = [line.strip() for line in re.split(r"[\r\n]+", said)]
    refused = next((line for line in lines if "invalid option" in line), "")
    if refused:
        return _OLD.format(refused[:100])
    told = [
        line
        for line in lines
        if re.search(
            r"fail|error|fatal|could not|cannot|denied|no space|quota", line, re.IGNORECASE
        )
    ]
    words = told[0] if told else next((line for line in reversed(lines) if line), "no message")
    return f"mksquashfs failed: {words[:300].rstrip('.')}."


def _printable(text: str) -> str:
    """Return a text without control characters: files may have been named by another user, and
    portal-pack prints their names to a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _size(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.1f} {unit}" if size < 10 and unit != "B" else f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
