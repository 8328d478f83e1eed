"""What must be true before anything is written: each that is not is a sentence with a way out."""

from __future__ import annotations

import grp
import logging
import os
import pwd
import re
import ssl
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from portal import disk
from portal.directory.servers import Servers, Session
from portal.errors import ConfigurationError, DirectoryUnavailable, PortalError
from portal.proxy import proxy_command

from . import contents
from .finding.machine import is_taken
from .finding.slurm import configuration, is_own
from .https import certificate_trouble, name_trouble
from .place import ETC, STATE, UNITS, Place, ask
from .plan import HUB_UNIT, PROXY_UNIT

_LEAST_SUDO = (1, 8, 8)  # knows pam_session, pam_setcred, NOSETENV and env_file for one user
_LEAST_SLURM = (21, 8)
_ROOM = 64 * 1024 * 1024


def missing(
    answers: dict[str, Any], password: str, place: Place, *, listening: bool = False
) -> Iterator[str]:
    """Yield what is not as it must be. ``listening``: the portal itself has its ports already."""
    yield from _installation(answers)
    yield from _places(answers, place)
    yield from _sudo(answers, place)
    yield from _people(answers, place)
    yield from _slurm(answers)
    yield from _ldap(answers, password, place)
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


def _slurm(answers: dict[str, Any]) -> Iterator[str]:
    folder = answers["slurm_bin"]
    absent = [name for name in ("sbatch", "scancel", "squeue") if not Path(folder, name).exists()]
    if absent:
        yield f"slurm_bin: {folder} has no {absent[0]}. Is this a submit host?"
        return
    config = configuration(folder, answers["slurm_conf"])
    if not config:
        yield (
            "slurmctld does not answer: `scontrol show config` has failed. Check slurm.conf, "
            "munge, and that slurmctld runs: `scontrol ping`."
        )
        return
    version = re.match(r"(\d+)\.(\d+)", config.get("SLURM_VERSION", ""))
    if version and tuple(map(int, version.groups())) < _LEAST_SLURM:
        yield f"Slurm {version[0]} is too old: 21.08 is needed."
    if answers["account"] == config.get("SlurmUser", "").partition("(")[0]:
        yield f"account: {answers['account']} is SlurmUser, which may do everything in Slurm."
    accounting = config.get("AccountingStorageType", "").endswith("slurmdbd")
    if answers["operator"] and not accounting:
        yield "operator: this Slurm has no slurmdbd, so there are no Operators. Answer false."
    elif answers["operator"]:
        variables = {"SLURM_CONF": answers["slurm_conf"]} if answers["slurm_conf"] else {}
        answer = ask(
            [f"{folder}/sacctmgr", "-n", "-P", "show", "user", "root", "format=AdminLevel"],
            **variables,
        )
        if not answer.good:
            yield f"slurmdbd does not answer: {answer.words}"
        yield from _slurm_account(answers, variables)
    if not is_own(answers["hub_address"]):
        yield (
            f"hub_address: {answers['hub_address']} is no address of this machine that another one "
            "reaches. Answer the address in the nodes' network."
        )


def _slurm_account(answers: dict[str, Any], variables: dict[str, str]) -> Iterator[str]:
    """Check that Slurm's account with the name of the Hub's is nobody else's: no job may be
    submitted with it."""
    name = answers["account"]
    words = ["show", "assoc", f"account={name}", "format=User"]
    found = ask([f"{answers['slurm_bin']}/sacctmgr", "-n", "-P", *words], 20, **variables)
    others = sorted({*found.stdout.split()} - {name})
    if others:
        yield (
            f"account: Slurm's account {name} is used by {', '.join(others[:3])}, and setup would "
            "let nobody submit jobs with it. Answer another name."
        )


def _ldap(answers: dict[str, Any], password: str, place: Place) -> Iterator[str]:
    uris, bind = answers["ldap_servers"], answers["ldap_bind_dn"]
    if bind and not password:
        yield (
            "ldap_password_file is missing: the password of the search account. Name a file with "
            "mode 0600."
        )
        return
    try:
        servers = Servers(uris, ca_file=answers["ldap_ca_file"], log=_quiet())
    except (ConfigurationError, ssl.SSLError) as error:
        yield f"ldap_ca_file: {getattr(error, 'message', error)}"
        return
    except PortalError as error:
        yield error.message
        return

    def examine(session: Session) -> str:
        if bind and not session.bind(bind, password):
            why = f" ({session.refusal.reason})" if session.refusal else ""
            return f"ldap_password_file: the directory refuses {bind} with this password{why}."
        if bind or answers["ldap_anonymous"]:
            base = answers["ldap_people_base"]
            if not session.search(base, "(objectClass=*)", ["1.1"], only_base=True):
                return f"ldap_people_base: the directory has no {base}, or hides it."
            groups = answers["ldap_groups_base"]
            if groups and not session.search(groups, "(objectClass=*)", ["1.1"], only_base=True):
                return f"ldap_groups_base: the directory has no {groups}, or hides it."
        return ""

    try:
        if trouble := servers.ask(examine, time.monotonic() + 20):
            yield trouble
    except DirectoryUnavailable:
        yield (
            f"ldap_servers: none of {', '.join(uris)} answers with a certificate that is trusted. "
            f"Try: ldapwhoami -x -H {uris[0]}{' -ZZ' if uris[0].startswith('ldap:') else ''}"
        )


def _quiet() -> logging.Logger:
    log = logging.getLogger("portal.setup")
    log.addHandler(logging.NullHandler())
    log.propagate = False
    return log


def password_of(answers: dict[str, Any], found: str, found_dn: str, place: Place) -> str:
    """Return the search account's password: of the file that is named, of this machine's own
    configuration, or the one that is in use. Raises ConfigurationError for a file that others
    read."""
    if not answers["ldap_bind_dn"]:
        return ""
    named = answers["ldap_password_file"]
    path = place.path(named or contents.PASSWORD)
    if not named and not path.exists():
        return found if answers["ldap_bind_dn"] == found_dn else ""
    try:
        with path.open(encoding="utf-8") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise ConfigurationError(
                    f"ldap_password_file: others may read {path}: chmod 0600 {path}"
                )
            return file.readline().rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"ldap_password_file: {path} cannot be read ({error}).") from None


def is_listening(place: Place) -> bool:
    """Return True if the portal's own units run, which have its ports."""
    systemctl = place.program("systemctl")
    return place.runs_systemd and any(
        ask([systemctl, "is-active", "-q", unit]).good for unit in (HUB_UNIT, PROXY_UNIT)
    )
