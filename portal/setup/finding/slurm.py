"""Slurm of this machine: commands, slurm.conf, accounting, and the address that its nodes reach."""

from __future__ import annotations

import glob
import os
import re
import socket
from pathlib import Path
from typing import Any

from ..place import Place, ask

# Where Slurm looks without SLURM_CONF; /run/slurm is where a "configless" slurmd keeps it.
USUAL = ("/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/run/slurm/conf/slurm.conf")
_FOLDERS = (
    "/usr/bin",
    "/usr/local/bin",
    "/opt/slurm/bin",
    "/opt/slurm/*/bin",
    "/cm/shared/apps/slurm/*/bin",
)


def find_slurm(place: Place) -> tuple[dict[str, Any], list[str]]:
    """Return answers about Slurm, and notes."""
    folder = _folder(place)
    if not folder:
        return {}, ["No Slurm commands were found: name their folder, slurm_bin."]
    answers: dict[str, Any] = {"slurm_bin": folder}
    version = ask([f"{folder}/sinfo", "--version"]).stdout.strip()
    config = configuration(folder)
    if not config:
        return answers, [f"{version or 'Slurm'}: slurmctld does not answer."]
    conf = config.get("SLURM_CONF", "")
    if conf and conf not in USUAL and not _default(folder):
        answers["slurm_conf"] = conf
    answers["operator"] = config.get("AccountingStorageType", "").endswith("slurmdbd")
    answers["hub_address"] = _address(folder)
    partitions = ask([f"{folder}/sinfo", "-h", "-o", "%R"]).stdout.split()
    accounting = "with slurmdbd" if answers["operator"] else "without accounting"
    notes = [f"{version} {accounting}, partitions {', '.join(sorted(set(partitions)))}."]
    return answers, notes


def configuration(folder: str, conf: str = "") -> dict[str, str]:
    """Return slurmctld's configuration; {} if it does not answer."""
    variables = {"SLURM_CONF": conf} if conf else {}
    answer = ask([f"{folder}/scontrol", "show", "config"], 20, **variables)
    if not answer.good:
        return {}
    return dict(re.findall(r"^(\S+)\s*=\s*(.*?)\s*$", answer.stdout, re.MULTILINE))


def is_own(address: str) -> bool:
    """Return True if a name or an address is one of this machine's, and not loopback."""
    try:
        found = {info[4][0] for info in socket.getaddrinfo(address, None)}
    except (OSError, UnicodeError):
        return False
    if any(str(known).startswith("127.") or known == "::1" for known in found):
        return False
    for known in found:
        family = socket.AF_INET6 if ":" in str(known) else socket.AF_INET
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.bind((str(known), 0))
        except OSError:
            return False
    return True


def _folder(place: Place) -> str:
    known = place.program("scontrol")
    candidates = [str(Path(known).parent)] if known else []
    for pattern in _FOLDERS:
        candidates += sorted(glob.glob(pattern), reverse=True)
    for folder in candidates:
        if all(os.access(f"{folder}/{name}", os.X_OK) for name in ("scontrol", "sbatch", "sinfo")):
            return folder
    return ""


def _default(folder: str) -> bool:
    """Return True if Slurm finds its slurm.conf without SLURM_CONF."""
    if "SLURM_CONF" not in os.environ:
        return True
    answer = ask(["env", "-u", "SLURM_CONF", f"{folder}/scontrol", "show", "config"], 20)
    return answer.good


def _address(folder: str) -> str:
    """Return the address from which this machine reaches the first node; "" if there is none."""
    nodes = ask([f"{folder}/scontrol", "show", "node", "--oneliner"], 20).stdout
    for address in re.findall(r"\bNodeAddr=(\S+)", nodes):
        try:
            info = socket.getaddrinfo(address, 6818, type=socket.SOCK_DGRAM)[0]
            with socket.socket(info[0], socket.SOCK_DGRAM) as probe:
                probe.connect(info[4])  # sends nothing: it asks the routing table
                found = str(probe.getsockname()[0])
        except (OSError, UnicodeError):
            continue
        if not found.startswith("127.") and found != "::1":
            return found
    return ""
