"""Enclosure of a command: a mount namespace that it cannot take apart, even as root of its own
user namespace. For Apptainer's ``build``, which gives ``%post`` of a definition file that right.

The kernel locks mounts that come from a mount namespace of another user namespace
(mount_namespaces(7), "Restrictions on mount namespaces"): they cannot be unmounted one by one to
see what they hide. So the mounts are made in one pair of namespaces, and the command runs in a
second pair inside it, as the account that it came from. Everything but the folders that are shown
is read-only: Apptainer follows links of an image that lead out of it, and writes there.

This file is run as a program as well (``python -I enclosure.py``), since a process with threads
cannot enter a user namespace: it imports nothing of the portal.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import stat
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, NoReturn

TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108  folders that a build has to itself
REFUSED = "PORTAL-ENCLOSURE"  # begins the line that says why there is no enclosure
_ALIAS = "portal-"  # begins the names of folders in the new root

# sched.h, sys/mount.h
_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC, _MS_SLAVE = 2, 4, 4096, 16384, 1 << 19
_MS_RDONLY, _MS_REMOUNT = 1, 32
# Options that must stay as they are (mount_namespaces(7)), as mountinfo has them.
_OPTIONS = {"nosuid": 2, "nodev": 4, "noexec": 8, "noatime": 1024, "nodiratime": 2048}
_OPTIONS |= {"relatime": 1 << 21}
_MNT_DETACH = 2
_SYS_PIVOT_ROOT = {"x86_64": 155, "ppc64le": 203, "s390x": 217}  # others: the generic table


class Enclosure(NamedTuple):
    """Enclosure of a command."""

    hidden: Mapping[str, str]  # folders of the node, to those seen in their place
    # Folders (resolved paths) that the command can still reach and write to, under names of their
    # own.
    shown: Sequence[str]
    directory: str = "/"  # its working directory

    def seen(self, path: str | os.PathLike[str]) -> str:
        """Return the enclosure's name of ``path``; its own if it is in no folder of ``shown``."""
        real = os.path.realpath(path)
        for number, folder in enumerate(self.shown):
            if real == folder or real.startswith(f"{folder}/"):
                return f"/{_ALIAS}{number}{real[len(folder) :]}"
        return os.fspath(path)

    def variables(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return environment variables with the enclosure's names in their paths."""
        return {
            name: ":".join(
                self.seen(part) if part.startswith("/") else part for part in value.split(":")
            )
            for name, value in values.items()
        }

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return the command line that runs ``argv`` in the enclosure. A program below a hidden
        folder stays where it is, with the folder above the one that it lies in."""
        program = os.path.realpath(argv[0])
        prefix = str(Path(program).parent.parent)
        stays = [prefix] if any(_below(prefix, folder) for folder in self.hidden) else []
        settings = {
            "hidden": dict(self.hidden),
            "shown": list(self.shown),
            "stays": stays,
            "directory": self.seen(self.directory),
        }
        script = str(Path(__file__).resolve())
        return [sys.executable, "-I", script, json.dumps(settings), program, *argv[1:]]


def main(argv: list[str]) -> NoReturn:
    """Enter the enclosure that ``argv`` sets (`Enclosure.command`), and become its command."""
    settings = json.loads(argv[1])
    try:
        _enter(settings["hidden"], settings["shown"], settings["stays"])
        os.chdir(settings["directory"])
    except OSError as error:
        step = f" ({error.filename})" if error.filename else ""
        sys.exit(f"{REFUSED}: {error.strerror}{step}")
    try:
        os.execv(argv[2], argv[2:])  # noqa: S606  a command of the portal's
    except OSError as error:
        sys.exit(f"{REFUSED}: {argv[2]}: {error.strerror}")


def _enter(hidden: Mapping[str, str], shown: Sequence[str], stays: Sequence[str]) -> None:
    user, group = os.geteuid(), os.getegid()
    _unshare(0, 0)
    _mount(None, "/", None, _MS_REC | _MS_SLAVE)  # nothing of this gets out
    # A root of our own, in which folders can be made: the tree as it is lies in /old meanwhile.
    _mount("tmpfs", "/tmp", "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=0755")  # noqa: S108
    os.chdir("/tmp")  # noqa: S108
    Path("old").mkdir()
    _pivot_root(".", "old")
    os.chdir("/")
    hides = {name.strip("/"): own for name, own in hidden.items()}
    for name in os.listdir("/old"):  # noqa: PTH208  names, no paths
        if name not in (*hides, "old"):
            _again(name)
    _protect()
    for number, folder in enumerate(shown):
        Path(f"/{_ALIAS}{number}").mkdir()
        _bind(f"/old{folder}", f"/{_ALIAS}{number}")
    for name, own in hides.items():
        if "/" not in name:
            Path("/", name).mkdir()
        if "/" not in name or Path("/", name).is_dir():
            _bind(f"/old{own}", f"/{name}")
    for folder in stays:
        Path(folder).mkdir(parents=True, exist_ok=True)
        _bind(f"/old{folder}", folder)
    _call("umount2", b"/old", _MNT_DETACH)
    Path("/old").rmdir()
    _unshare(user, group)


def _again(name: str) -> None:
    """Put the entry ``name`` of the old root into the new one."""
    old, new = Path("/old", name), Path("/", name)
    kind = old.lstat().st_mode
    if stat.S_ISLNK(kind):
        new.symlink_to(old.readlink())
        return
    if stat.S_ISDIR(kind):
        new.mkdir()
    else:
        new.touch()
    _bind(str(old), str(new))


def _protect() -> None:
    """Make all mounts read-only, except what processes need to run. Mounts that the kernel refuses
    to change are left: one that nobody answers for, or one with options that it does not tell."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        place = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4])
        if place == "/" or any(_below(place, folder) for folder in ("/old", "/dev", "/proc")):
            continue
        flags = _MS_BIND | _MS_REMOUNT | _MS_RDONLY
        for option in fields[5].split(","):
            flags |= _OPTIONS.get(option, 0)
        with suppress(OSError):
            _mount(None, place, None, flags)


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _unshare(user: int, group: int) -> None:
    """Enter new user and mount namespaces as ``user`` and ``group``, and map no other number: more
    would take rights that no account of builds has."""
    was_user, was_group = os.geteuid(), os.getegid()
    _call("unshare", _CLONE_NEWUSER | _CLONE_NEWNS)
    Path("/proc/self/setgroups").write_text("deny")  # else gid_map is refused
    Path("/proc/self/uid_map").write_text(f"{user} {was_user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {was_group} 1")


def _bind(source: str, target: str) -> None:
    _mount(source, target, None, _MS_BIND | _MS_REC)


def _mount(
    source: str | None, target: str, kind: str | None, flags: int, data: str | None = None
) -> None:
    args = [None if value is None else os.fsencode(value) for value in (source, target, kind)]
    try:
        _call("mount", *args, ctypes.c_ulong(flags), None if data is None else data.encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, f"mount {target}") from None


def _pivot_root(new: str, old: str) -> None:
    number = _SYS_PIVOT_ROOT.get(os.uname().machine, 41)  # glibc has no function for it
    _call("syscall", ctypes.c_long(number), os.fsencode(new), os.fsencode(old))


def _call(name: str, *args: object) -> None:
    """Call a function of the C library. Raises OSError."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*args):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)


if __name__ == "__main__":
    main(sys.argv)
