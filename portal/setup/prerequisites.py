"""Prerequisites of a setup: each that is not met is a sentence with a way out."""

from __future__ import annotations

import grp
import os
import pwd
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from portal import disk
from portal.errors import ConfigurationError, PortalError
from portal.proxy import proxy_command

from .finding.machine import is_taken
from .https import certificate_trouble, name_trouble
from .place import ETC, STATE, UNITS, Place, ask
from .plan import HUB_UNIT, PROXY_UNIT
from .services import ldap_faults, slurm_faults

_LEAST_SUDO = (1, 8, 8)  # knows pam_session, pam_setcred, NOSETENV and env_file for one user
_ROOM = 64 * 1024 * 1024


def missing(
    answers: dict[str, Any], password: str, place: Place, *, listening: bool = False
) -> Iterator[str]:
    """Yield what is not as it must be. ``listening``: the portal itself has its ports already."""
    yield from _installation(answers)
    yield from _places(answers, place)
    yield from _sudo(answers, place)
    yield from _people(answers, place)
    yield from slurm_faults(answers)
    yield from ldap_faults(answers, password)
    for trouble in (certificate_trouble(place, answers), name_trouble(answers)):
        if trouble:
            yield trouble
    if not listening:
        for port in filter(is_taken, answers["ports"]):
            yield (
                f"ports: another program listens on port {port}. Answer four free ones, e.g. "
                f"ports: [8100, 8101, 8181, 8110]."
            )


def ensure_root() -> None:
    """Raise ConfigurationError for another account."""
    if os.geteuid() != 0:
        name = pwd.getpwuid(os.geteuid()).pw_name
        raise ConfigurationError(
            f"`portal setup` runs as root, and this is {name}: it writes into /etc and makes an "
            "account. `portal setup --print-answers` runs as anybody."
        )


def _installation(answers: dict[str, Any]) -> Iterator[str]:
    if sys.prefix == sys.base_prefix:
        yield (
            f"The portal runs from {sys.prefix}, which is no virtual environment: an upgrade of "
            "the system would change it. Install it into one: python3 -m venv "
            "/opt/data-scientist-portal/venv"
        )
    program = Path(sys.prefix) / "bin" / "portal"
    if not os.access(program, os.X_OK):
        yield f"{program} is missing. Install the portal again."
    if str(program).startswith(("/home/", "/root/")):
        yield (
            f"The portal is installed in {sys.prefix}: its units see no home directories. Install "
            "it into /opt/data-scientist-portal/venv."
        )
    elif closed := _closed(Path(__file__)):
        yield f"{closed} is closed to other accounts: chmod -R go+rX {closed}"
    try:
        proxy_command()
    except PortalError as error:
        yield error.message


def _closed(path: Path) -> str:
    """Return the first part of a path that not everybody may pass; "" if there is none."""
    for part in (*reversed(path.parents), path):
        if not part.stat().st_mode & (0o001 if part.is_dir() else 0o004):
            return str(part)
    return ""


def _places(answers: dict[str, Any], place: Place) -> Iterator[str]:
    said = set()
    for folder in (ETC, STATE, UNITS, "/etc/sudoers.d"):
        path = _existing(place.path(folder))
        if (disk_number := path.stat().st_dev) in said:
            continue  # one sentence for a file system
        said.add(disk_number)
        if not os.access(path, os.W_OK):  # also for root: the file system is mounted read-only
            yield f"{path} is read-only. Mount it writable, and run setup again."
        elif (free := disk.free(path)) is not None and free < _ROOM:
            yield (
                f"{path} has {free // 2**20} MiB of free space, and {_ROOM // 2**20} MiB are "
                "needed. Make space, and run setup again."
            )
    state = place.path(STATE)
    if state.is_dir() and state.stat().st_uid not in (0, os.geteuid()):
        yield f"{state} belongs to another account than root: chown root:root {state}"
    yield from _logs(answers, place)


def _logs(answers: dict[str, Any], place: Place) -> Iterator[str]:
    """Check the folder of the logs, which is often on a file system of others."""
    account, wanted = answers["account"], place.path(answers["log_directory"])
    logs = _existing(wanted)
    numbers = place.numbers(account, account)
    status = logs.stat()
    if not logs.is_dir():
        yield f"log_directory: {logs} is no folder."
    elif numbers and logs == wanted and (status.st_uid, status.st_gid) == numbers:
        return
    elif logs == wanted and any(logs.iterdir()):
        yield (
            f"log_directory: {logs} is another account's and not empty, and setup would give it to "
            f"{account}. Answer a folder of its own, e.g. {wanted}/portal-log."
        )
    elif not os.access(logs, os.W_OK):
        yield (
            f"log_directory: root may not write in {logs}. Make the folder where it may: "
            f"install -d -o {account} -g {account} -m 0711 {wanted}"
        )
    elif logs != wanted and status.st_mode & 0o1002 == 0o0002:
        yield (
            f"log_directory: everybody may write in {logs}, and could put another folder in its "
            "place. Answer a folder below one that is root's."
        )


def _existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.exists())


def _sudo(answers: dict[str, Any], place: Place) -> Iterator[str]:
    sudo, visudo = place.program("sudo"), place.program("visudo")
    if not sudo or not visudo:
        yield "sudo is not installed. The Hub submits jobs as users with it."
        return
    found = re.search(r"Sudo version (\d+)\.(\d+)\.(\d+)", ask([sudo, "--version"]).stdout)
    if not found or tuple(map(int, found.groups())) < _LEAST_SUDO:
        version = found[0].removeprefix("Sudo version ") if found else "unknown"
        least = ".".join(map(str, _LEAST_SUDO))
        yield f"sudo {version} is too old for the rule of the Hub's account: {least} is needed."
    main = place.path("/etc/sudoers")
    try:
        includes = re.search(r"^[#@]includedir\s+\S*/sudoers\.d\b", main.read_text(), re.MULTILINE)
    except OSError:
        includes = None
    if not includes:
        yield f"{main} does not include /etc/sudoers.d. Add the line: @includedir /etc/sudoers.d"


def _people(answers: dict[str, Any], place: Place) -> Iterator[str]:
    if not place.is_machine:
        return
    name = answers["users_group"]
    try:
        group = grp.getgrnam(name)
    except KeyError:
        yield f"users_group: this machine knows no group {name}. Is sssd or nslcd running?"
        return
    if group.gr_gid == 0 or "root" in group.gr_mem:
        yield f"users_group: root is in {name}, so the Hub could become root. Answer another group."
    if answers["account"] in group.gr_mem:
        yield f"users_group: the Hub's account {answers['account']} must not be in {name}."
    if user := answers["test_user"]:
        try:
            gid = pwd.getpwnam(user).pw_gid
        except KeyError:
            yield f"test_user: this machine knows no user {user}."
            return
        if user not in group.gr_mem and gid != group.gr_gid:
            yield f"test_user: {user} is not in {name}, and may have no sessions."
    try:
        account = pwd.getpwnam(answers["account"])
    except KeyError:
        return
    if account.pw_uid == 0:
        yield f"account: {answers['account']} is root by its number. Answer another account."


def is_listening(place: Place) -> bool:
    """Return True if the portal's own units run, which have its ports."""
    systemctl = place.program("systemctl")
    return place.runs_systemd and any(
        ask([systemctl, "is-active", "-q", unit]).good for unit in (HUB_UNIT, PROXY_UNIT)
    )
