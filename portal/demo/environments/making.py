"""Helpers for slow builds that run once: commands, locks, and directories renamed when done."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from portal.errors import ConfigurationError

Progress = Callable[[str], None]  # gets a line of text for each long step


def run(
    argv: Sequence[str | Path],
    what: str,
    *,
    env: Mapping[str, str] | None = None,
    timeout: float = 600,
    cwd: Path | None = None,
) -> str:
    """Run a command to its end and return its standard output.

    Raises ConfigurationError, with ``what`` ("unpack libc6") and the last lines of output, if the
    command is missing, fails or takes longer than ``timeout`` seconds.
    """
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            env=None if env is None else dict(env),
            cwd=cwd,
            umask=0o022,  # the results must be readable by every user
            check=False,
        )
    except FileNotFoundError as error:
        raise ConfigurationError(f"Cannot {what}: '{argv[0]}' is not installed.") from error
    except OSError as error:
        raise ConfigurationError(f"Cannot {what}: {error}.") from error
    except subprocess.TimeoutExpired as error:
        raise ConfigurationError(f"Cannot {what}: not finished after {timeout:.0f} s.") from error
    if done.returncode != 0:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise ConfigurationError(f"Cannot {what}: " + (" / ".join(lines[-4:]) or "it failed."))
    return done.stdout


@contextmanager
def timed(progress: Progress, what: str) -> Iterator[None]:
    """Report the start of ``what`` and, if it took longer than 2 s, its duration."""
    progress(f"{what} …")
    start = time.monotonic()
    yield
    seconds = time.monotonic() - start
    if seconds > 2:
        progress(f"{what}: {seconds:.0f} s")


@contextmanager
def locked(cache: Path, name: str, progress: Progress) -> Iterator[None]:
    """Hold ``cache``/.NAME.lock, so that two starts do not build the same thing twice.

    Raises ConfigurationError if ``cache`` is not writable.
    """
    try:
        make_readable_directory(cache)
        with (cache / f".{name}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                progress(f"Waiting for another start that is building {name}")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except PermissionError as error:
        raise ConfigurationError(
            f"Cannot write to {cache}: {error.strerror}. Set PORTAL_CACHE to a writable directory."
        ) from error


def make_readable_directory(path: Path) -> None:
    """Create ``path`` and its missing parents, readable by every user (mode 755)."""
    for part in (*reversed(path.parents), path):
        if not part.exists():
            part.mkdir(exist_ok=True)
            part.chmod(0o755)  # whatever the umask


@contextmanager
def new_directory(target: Path) -> Iterator[Path]:
    """Yield a directory that replaces ``target`` at the end; on an exception, it is removed."""
    new = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    new.chmod(0o755)
    try:
        yield new
        if target.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=target.parent))
            target.rename(old / "was")
            new.rename(target)
            shutil.rmtree(old, ignore_errors=True)
        else:
            new.rename(target)
    finally:
        shutil.rmtree(new, ignore_errors=True)
