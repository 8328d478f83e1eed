"""The site's processes: its Hub, and the proof that nothing uses what a restore replaces.

Several Hubs of one configuration file may run on a machine, each in a folder of its own.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from portal.doctor.checks.hub import hubs_with
from portal.errors import Conflict
from portal.work.endpoint.parts import STATE

_WAY_OUT = (
    "Stop it (systemctl stop data-scientist-portal data-scientist-portal-gateway), then restore "
    "again. Nothing was changed."
)


def running_hub(config_file: Path, directory: Path | None = None) -> Path | None:
    """Return /proc/PID of the Hub that runs with this configuration file, in ``directory`` if that
    is known; of several, the one whose folder is this command's. Raises Conflict if none is."""
    hubs = [p for p in hubs_with(config_file) if directory is None or _is_in(p, directory)]
    if len(hubs) > 1:
        here = Path.cwd()
        hubs = [process for process in hubs if _is_in(process, here)]
        if not hubs:
            raise Conflict(
                f"Several Hubs run with {config_file}. Run this in the folder of the one that is "
                "meant, as the account that owns it. Nothing was changed."
            )
    return hubs[0] if hubs else None


def ensure_stopped(
    config_file: Path, directory: Path | None, databases: Iterable[Path], files: Iterable[Path]
) -> None:
    """Raise Conflict if a Hub with this configuration file runs (in ``directory``, if that is
    known), a web service with it, the gateway that has its key among ``files``, or a process that
    has one of SQLite's ``databases`` open."""
    for process in hubs_with(config_file):
        if directory is None or _is_in(process, directory):
            raise Conflict(f"The Hub runs (process {process.name}). {_WAY_OUT}")
    folders = {path.parent for path in files}
    for process, words in _portals():
        if directory is not None and words[0] == "service" and not _is_in(process, directory):
            continue
        if words[0] == "service" and f"--config={config_file}" in words:
            raise Conflict(f"The portal's web service runs (process {process.name}). {_WAY_OUT}")
        if words[0] == "gateway" and _state_of(process) in folders:
            raise Conflict(f"The gateway of endpoints runs (process {process.name}). {_WAY_OUT}")
    for path, process in _open_files({str(path) for path in databases}):
        raise Conflict(f"Process {process.name} has {path} open. {_WAY_OUT}")


def _is_in(process: Path, folder: Path) -> bool:
    """Return True if the process works in the folder, or may not be asked."""
    try:
        return (process / "cwd").readlink() == folder
    except OSError:
        return True


def _processes() -> Iterator[Path]:
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and process.name != str(os.getpid()):
            yield process


def _portals() -> Iterator[tuple[Path, list[str]]]:
    """Yield each process of the command ``portal``, with the words after it."""
    for process in _processes():
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_text(errors="replace").split("\0")
            for place, word in enumerate(words[:3]):
                if word.rpartition("/")[2] == "portal" and len(words) > place + 1:
                    yield process, words[place + 1 :]
                    break


def _state_of(process: Path) -> Path | None:
    """Return the state directory of a gateway; None if this account may not see it."""
    with contextlib.suppress(OSError):
        for line in (process / "environ").read_text(errors="replace").split("\0"):
            name, _, value = line.partition("=")
            if name in ("STATE_DIRECTORY", STATE) and value:
                return Path(value)
    return None


def _open_files(paths: set[str]) -> Iterator[tuple[str, Path]]:
    """Yield those of ``paths`` that a process has open, as far as this account may see it."""
    for process in _processes():
        with contextlib.suppress(OSError):
            for descriptor in (process / "fd").iterdir():
                with contextlib.suppress(OSError):
                    target = str(descriptor.readlink())
                    if target in paths:
                        yield target, process
