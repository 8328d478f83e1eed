"""Prerequisites at Slurm and at the directory: both are asked as the Hub will ask them."""

from __future__ import annotations

import logging
import os
import re
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from portal.directory.servers import Servers, Session
from portal.errors import ConfigurationError, DirectoryUnavailable, PortalError

from . import contents
from .finding.slurm import configuration, is_own
from .place import Place, ask

_LEAST_SLURM = (21, 8)


def slurm_faults(answers: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with Slurm, or with what the Hub would be in it."""
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


def ldap_faults(answers: dict[str, Any], password: str) -> Iterator[str]:
    """Yield what is wrong with the directory, or with the account that searches it."""
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
