"""Shared file systems, Apptainer, web server, ports, and a JupyterHub that is there already."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any

from ..answers import PORTS
from ..place import CONFIG, Place

_SHARED = {
    "nfs",
    "nfs4",
    "lustre",
    "gpfs",
    "ceph",
    "cephfs",
    "fuse.ceph",
    "beegfs",
    "glusterfs",
    "fuse.glusterfs",
    "wekafs",
    "panfs",
    "pvfs2",
    "orangefs",
    "afs",
    "smb3",
    "cifs",
    "9p",
    "virtiofs",
}
_MODULES = (
    ("Lmod", "/usr/share/lmod/lmod/init/bash"),
    ("Lmod", "/opt/apps/lmod/lmod/init/bash"),
    ("Lmod", "/etc/profile.d/lmod.sh"),
    ("Environment Modules", "/usr/share/modules/init/bash"),
    ("Environment Modules", "/usr/share/Modules/init/bash"),
    ("Environment Modules", "/etc/profile.d/modules.sh"),
)
_WEB_SERVERS = (("nginx", ("nginx",)), ("apache", ("apache2", "httpd")), ("caddy", ("caddy",)))


def find_machine(place: Place) -> tuple[dict[str, Any], list[str]]:
    """Return answers about this machine, and notes."""
    answers: dict[str, Any] = {}
    notes = []
    shared = shared_folders(place)
    notes.append(f"Shared file systems: {', '.join(shared) or 'none were found'}.")
    answers["log_directory"] = _log_directory(shared)
    answers["binds"] = [
        f"{folder}:rw" for folder in shared if re.fullmatch(r"/(data|scratch|work)[\w/]*", folder)
    ]
    answers["apptainer"] = place.program("apptainer") or place.program("singularity")
    modules = [f"{name} ({file})" for name, file in _MODULES if place.path(file).is_file()]
    notes.append(f"Modules: {modules[0] if modules else 'none were found'}.")
    notes.append(f"Apptainer: {answers['apptainer'] or 'not found on this machine'}.")
    answers["users_group"] = _users_group(place)
    there = [name for name, programs in _WEB_SERVERS if any(map(place.program, programs))]
    if there:
        notes.append(f"For HTTPS: {', '.join(there)}.")
    notes += foreign_hub(place)
    answers["ports"] = free_ports(place)
    return answers, notes


def shared_folders(place: Place) -> list[str]:
    """Return where file systems of other machines are mounted."""
    try:
        lines = place.path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return []
    mounts = [line.split() for line in lines]
    found = {
        re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), fields[1])
        for fields in mounts
        if len(fields) > 2 and fields[2] in _SHARED
    }
    return sorted(found)


def foreign_hub(place: Place) -> list[str]:
    """Return a note for each sign of a JupyterHub that is not the portal's."""
    signs = [
        str(unit)
        for folder in ("etc/systemd/system", "lib/systemd/system", "usr/lib/systemd/system")
        for unit in sorted(place.path(f"/{folder}").glob("*jupyterhub*.service"))
    ]
    signs += [
        str(place.path(folder))
        for folder in ("/etc/jupyterhub", "/srv/jupyterhub", "/opt/tljh")
        if place.path(folder).is_dir()
    ]
    if not signs:
        return []
    return [f"There is another JupyterHub ({', '.join(signs)}): it is left alone."]


def free_ports(place: Place) -> list[str]:
    """Return four ports that nothing listens on; those of a portal that was set up here stay."""
    try:
        text = place.path(CONFIG).read_text()
        kept = re.search(r"^# Ports: (\d+) (\d+) (\d+) (\d+)$", text, re.MULTILINE)
    except OSError:
        kept = None
    if kept:
        return list(kept.groups())
    for shift in range(0, 1000, 100):
        ports = [str(int(port) + shift) for port in PORTS]
        if not any(map(is_taken, ports)):
            return ports
    return list(PORTS)


def is_taken(port: str) -> bool:
    """Return True if something listens on a port of this machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", int(port)))  # noqa: S104  nothing listens: it is not accepted
        except OSError:
            return True
    return False


def _log_directory(shared: list[str]) -> str:
    for folder in shared:
        if not folder.startswith(("/home", "/proc")) and Path(folder).name != "home":
            return f"{folder}/portal/log"
    return f"{shared[0]}/portal/log" if shared else ""


def _users_group(place: Place) -> str:
    try:
        lines = place.path("/etc/group").read_text().splitlines()
    except OSError:
        return ""
    names = [line.partition(":")[0] for line in lines]
    return next((name for name in ("portal-users", "hpc-users") if name in names), "")
