"""Packed folders in this session. A container got them at its start, from deploy/session.sh, which
runs outside of it: in a container, no program may mount. On the node itself, squashfuse does."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import MutableMapping
from pathlib import Path

from .places import ENDING, NAMES, VARIABLE, Packed, Places

PREFIX = "portal-packed-"
_PATIENCE = 10.0  # seconds until an image is mounted


class Binding:
    """Packed folders of one session. ``environ``: the server's own, which kernels inherit."""

    def __init__(self, places: Places, environ: MutableMapping[str, str]) -> None:
        self._places, self._environ = places, environ
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._problems: dict[str, str] = {}  # of what could not be mounted
        # Kernels beside their server have what the session got at its start, too.
        self._inside = any(
            environ.get(name)
            for name in ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER", "PORTAL_CONTAINER")
        )

    @property
    def possible(self) -> bool:
        """Return False in a container for which the job script binds none: it does not see the
        home."""
        return not self._inside or VARIABLE in self._environ

    def bind(self, packed: Packed) -> str:
        """Bind a packed folder, if this session can; return a sentence about it. Blocks."""
        here = f"In notebooks and scripts it is os.environ['{VARIABLE}'] + '/{packed.name}'."
        if self._inside:
            return f"It is bound from your next session or run in a container on. {here}"
        if shutil.which("squashfuse") is None:
            return (
                "This session cannot bind it: squashfuse is missing on this node. Ask your admin "
                "for it, or use the image in an environment that is a container."
            )
        problem = self._mount(packed)
        if problem:
            return f"This session could not bind it: {problem}."
        path = self.path(packed.name)
        return f"In this session it is {path}; kernels that start now have it as ${VARIABLE}."

    def path(self, name: str) -> str:
        """Return where a packed folder is in this session; "" if it is not bound."""
        if self._inside:
            bound = name in self._environ.get(NAMES, "").split()
            return str(self._places.folder / name) if bound else ""
        process = self._running.get(name)
        alive = process is not None and process.poll() is None
        return str(self._folder / name) if alive and self._folder else ""

    def states(self) -> list[dict[str, str]]:
        """Return name, image, path in this session, and a reason if there is none."""
        return [self._state(packed) for packed in self._places.packed()]

    def _state(self, packed: Packed) -> dict[str, str]:
        path = self.path(packed.name)
        return {**packed._asdict(), "path": path, "reason": "" if path else self._reason(packed)}

    def bind_all(self) -> None:
        """Bind what was packed before, at the session's start, where that is done by squashfuse."""
        remove_leftovers(Path(tempfile.gettempdir()))
        if not self._inside and shutil.which("squashfuse"):
            for packed in self._places.packed():
                self._mount(packed)

    def close(self) -> None:
        """Unmount everything."""
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(2)
        self._running.clear()
        if self._folder is not None:
            for place in self._folder.iterdir():
                if os.path.ismount(place):  # a program still has a file of it
                    _unmount(place)
                with contextlib.suppress(OSError):
                    place.rmdir()
            with contextlib.suppress(OSError):
                self._folder.rmdir()

    def _reason(self, packed: Packed) -> str:
        if not Path(packed.image).exists():
            return f"{packed.image} is missing"
        if self._inside:
            return "it is bound from the next session on; else that session's log says why not"
        if shutil.which("squashfuse") is None:
            return "squashfuse is missing on this node"
        return self._problems.get(packed.name, "it is not mounted yet")

    def _mount(self, packed: Packed) -> str:
        """Mount an image; return why that failed, or ""."""
        with self._lock:
            if self.path(packed.name):
                return ""
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix=PREFIX))  # mode 700
            place = self._folder / packed.name
            place.mkdir(exist_ok=True)
            image = self._places.folder / f"{packed.name}{ENDING}"
            words = tempfile.TemporaryFile()  # noqa: SIM115 - squashfuse has it; no pipe to fill up
            # In the foreground: it ends with this server, and unmounts.
            process = subprocess.Popen(
                ["squashfuse", "-f", str(image), str(place)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=words,
            )
            until = time.monotonic() + _PATIENCE
            while time.monotonic() < until and process.poll() is None:
                if os.path.ismount(place):
                    self._running[packed.name] = process
                    self._environ[VARIABLE] = str(self._folder)
                    words.close()
                    return ""
                time.sleep(0.02)
            process.kill()
            process.wait()
            if _is_dead(place):
                _unmount(place)
            words.seek(0)
            lines = words.read(10_000).decode(errors="replace").strip().splitlines()
            words.close()
            problem = lines[-1][:300].rstrip(".") if lines else "squashfuse does not answer"
            self._problems[packed.name] = problem
            return problem


def remove_leftovers(parent: Path) -> None:
    """Remove the mounts of this account's servers that were killed: nothing answers there."""
    for folder in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.lstat().st_uid != os.geteuid() or folder.is_symlink():
                continue
            dead = [place for place in folder.iterdir() if _is_dead(place)]
            for place in dead:
                _unmount(place)
                place.rmdir()
            if dead:
                folder.rmdir()


def _is_dead(place: Path) -> bool:
    try:
        os.statvfs(place)  # the answer of stat may be a former one
    except OSError as error:
        return error.errno == errno.ENOTCONN
    return False


def _unmount(place: Path) -> None:
    program = shutil.which("fusermount3") or shutil.which("fusermount") or "fusermount"
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run([program, "-uz", place], capture_output=True, timeout=10)
