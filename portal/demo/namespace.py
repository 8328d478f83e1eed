"""Mount namespace of the demo's root form, with accounts that exist only inside it.

``enter`` moves this process into a mount namespace (unshare(2), CLONE_NEWNS) whose /etc is the
host's under private passwd, group, shadow, gshadow, sudoers, nsswitch.conf, hosts and slurm. The
host's files are not changed, and all of it vanishes with the last process in the namespace.

The directory is mounted, never a single file: renaming a file over the host's /etc/passwd, as
useradd(8) and every package with an account do, removes mounts on that file in all namespaces
(mount_namespaces(7), "Restrictions on mount namespaces").
"""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import stat
import subprocess
from pathlib import Path

from ..errors import ConfigurationError
from . import project_folders
from .home import Home
from .people import Account, People

_CLONE_NEWNS = 0x00020000
_FUSE = os.makedev(10, 229)  # Documentation/admin-guide/devices.txt of Linux
_LAST_SYSTEM_UID = 999  # Debian Policy 9.2.2: accounts of people begin at 1000
_NOBODY = 65534
_PRIVATE = (
    *("passwd", "group", "shadow", "gshadow", "sudoers"),
    *("nsswitch.conf", "hosts"),
)
OWNER = Path("etc/portal-demo")
"""Symbolic link to the demo's home, relative to the root of every process in its namespace."""


def allowed() -> bool:
    """Return True if this process may create a mount namespace and mount in it."""
    if os.geteuid() != 0:
        return False
    trial = ["unshare", "--mount", "--propagation", "private", "mount", "-t", "tmpfs", "x", "/mnt"]
    try:
        return subprocess.run(trial, capture_output=True, timeout=10).returncode == 0
    except OSError:
        return False


def enter(home: Home, people: People, deploy: Path) -> None:
    """Move this process and its later children into the demo's namespace.

    Raises ConfigurationError if the kernel refuses. Call it before any thread is started.
    """
    etc = home.demo / "etc"
    _write(etc, home, people, deploy)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS) != 0:
        raise ConfigurationError(
            f"Cannot create a mount namespace: {os.strerror(ctypes.get_errno())}."
        )
    _mount("--make-rprivate", "/")
    _mount_etc(etc, home.demo / "etc-layer", home.root)
    _mount("--bind", etc / "sudoers.d", "/etc/sudoers.d")
    # Commands find the demo's slurm.conf at its default path, so sessions need no special
    # environment.
    _mount("--bind", home.demo / "slurm" / "etc", "/etc/slurm")
    # A name service cache of the host would answer with the host's accounts.
    for cache in (Path("/run/nscd"), Path("/var/lib/sss/pipes")):
        if cache.is_dir():
            _mount("-t", "tmpfs", "-o", "mode=755", "none", cache)
    _open_fuse(home.demo / "dev")


def _mount_etc(etc: Path, layer: Path, home: Path) -> None:
    """Mount the files in ``etc``, on top of the host's, over /etc, from a tmpfs at ``layer``.

    An overlay also shows what is installed on the host later. If the kernel refuses one, a copy of
    the host's current /etc is mounted.
    """
    layer.mkdir(exist_ok=True)
    _mount("-t", "tmpfs", "-o", "mode=755,size=256m", "none", layer)
    upper, work = layer / "upper", layer / "work"
    upper.mkdir(mode=0o755)
    work.mkdir(mode=0o700)
    for path in _mounted_below(Path("/etc")):  # a container's resolv.conf: an overlay has no mounts
        _copy(path, upper / path.relative_to("/etc"))
    _put_private(etc, upper, home)
    layers = f"lowerdir=/etc,upperdir={upper},workdir={work}"
    if _mounted("-t", "overlay", "-o", layers, "portal-demo", "/etc"):
        return
    copy = layer / "copy"
    shutil.copytree("/etc", copy, symlinks=True, ignore_dangling_symlinks=True)
    _put_private(etc, copy, home)
    _mount("--bind", copy, "/etc")


def _put_private(etc: Path, target: Path, home: Path) -> None:
    for name in _PRIVATE:
        shutil.copy2(etc / name, target / name)
    for name in ("slurm", "sudoers.d"):  # mount points
        (target / name).mkdir(mode=0o755, exist_ok=True)
    (target / project_folders.SETTINGS.parent).mkdir(mode=0o755, exist_ok=True)
    shutil.copy2(etc / project_folders.SETTINGS, target / project_folders.SETTINGS)
    (target / OWNER.name).symlink_to(home)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    elif source.is_file():
        shutil.copy2(source, target)


def _mounted_below(directory: Path) -> list[Path]:
    """Return this namespace's mount points below ``directory`` (proc(5), mountinfo, field 5)."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    paths = [line.split(" ")[4].encode().decode("unicode_escape") for line in lines]
    return [Path(path) for path in paths if directory in Path(path).parents]


def _open_fuse(place: Path) -> None:
    """Open /dev/fuse, which is often closed to users, so that the demo's people can mount images.

    The open device node is on a tmpfs of this namespace; the host never sees it.
    """
    if not Path("/dev/fuse").exists() or Path("/dev/fuse").stat().st_mode & 0o006 == 0o006:
        return
    place.mkdir(exist_ok=True)
    _mount("-t", "tmpfs", "-o", "mode=755,size=64k", "none", place)
    node = place / "fuse"
    os.mknod(node, stat.S_IFCHR | 0o666, _FUSE)
    node.chmod(0o666)
    _mount("--bind", node, "/dev/fuse")


def _write(etc: Path, home: Home, people: People, deploy: Path) -> None:
    """Write the private files, with only the host's system accounts and the demo's accounts."""
    etc.mkdir(exist_ok=True)
    services = list(people.services.values())
    persons = list(people.persons.values())
    passwd = _system_lines(Path("/etc/passwd"), services + persons)
    group = _system_lines(Path("/etc/group"), services + persons)
    for account in services:
        passwd.append(f"{account.name}:x:{account.uid}:{account.gid}::/nonexistent:/bin/sh")
        members = ",".join(service.name for service in services if account.gid in service.groups)
        group.append(f"{account.name}:x:{account.gid}:{members}")
    for account in persons:
        directory = home.people / account.name
        passwd.append(f"{account.name}:x:{account.uid}:{account.gid}::{directory}:/bin/bash")
        group.append(f"{account.name}:x:{account.gid}:")
        _make_home(directory, account)
    members = ",".join(people.persons)
    group.append(f"{people.group}:x:{people.gid}:{members}")
    group.append(f"{project_folders.GROUP}:x:{project_folders.GROUP_ID}:")
    names = [line.split(":", 1)[0] for line in passwd]
    _put(etc / "passwd", passwd, 0o644)
    _put(etc / "group", group, 0o644)
    # No password opens an account here: people log in through the directory.
    _put(etc / "shadow", [f"{name}:*:19000:0:99999:7:::" for name in names], 0o600)
    _put(etc / "gshadow", [f"{line.split(':', 1)[0]}:!::" for line in group], 0o600)
    _put(etc / "nsswitch.conf", (deploy / "demo/etc/nsswitch.conf").read_text().split("\n"), 0o644)
    _put(etc / "sudoers", (deploy / "demo/etc/sudoers").read_text().split("\n"), 0o440)
    _put(etc / "hosts", _hosts(), 0o644)
    (etc / "sudoers.d").mkdir(exist_ok=True)
    _put(etc / "sudoers.d/portal", (deploy / "sudoers").read_text().split("\n"), 0o440)
    project_folders.lay(home, people.services["portal"], deploy, etc)


def _hosts() -> list[str]:
    """Return the lines of the host's /etc/hosts, with this machine's own name at 127.0.0.1.

    Slurm's daemons bind to the address of the name that gethostname(2) gives; on the host that can
    be 127.0.1.1, to which no client connects, or an address of the network.
    """
    own = socket.gethostname()
    lines = [f"127.0.0.1 localhost {own}"]
    for line in Path("/etc/hosts").read_text().splitlines():
        fields = line.split("#", 1)[0].split()
        names = [name for name in fields[1:] if name != own]
        if names:
            lines.append(" ".join([fields[0], *names]))
    return lines


def _system_lines(path: Path, ours: list[Account]) -> list[str]:
    """Return the host's passwd or group lines of system accounts with names and ids not ours."""
    names = {account.name for account in ours}
    numbers = {account.uid for account in ours} | {account.gid for account in ours}
    lines = []
    for line in path.read_text().splitlines():
        fields = line.split(":")
        if len(fields) < 3 or not fields[2].isdigit() or fields[0] in names:
            continue
        number = int(fields[2])
        if (number <= _LAST_SYSTEM_UID or number == _NOBODY) and number not in numbers:
            lines.append(line)
    return lines


def _make_home(directory: Path, account: Account) -> None:
    if not directory.exists():
        directory.mkdir(mode=0o700)
        os.chown(directory, account.uid, account.gid)
        directory.chmod(0o700)


def _put(path: Path, lines: list[str], mode: int) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
        file.write("\n".join(lines).rstrip("\n") + "\n")
    path.chmod(mode)


def _mount(*args: str | Path) -> None:
    done = subprocess.run(["mount", *map(str, args)], capture_output=True, text=True)
    if done.returncode != 0:
        raise ConfigurationError(f"Cannot set up the demo's namespace: {done.stderr.strip()}")


def _mounted(*args: str | Path) -> bool:
    """Run mount(8) with ``args``; return True if it succeeded."""
    done = subprocess.run(["mount", *map(str, args)], capture_output=True)
    return done.returncode == 0
