"""Who may do what in Slurm: SlurmUser from ``scontrol show config``, AdminLevel from sacctmgr."""

from __future__ import annotations

import re

# sacctmgr(1) "LIST/SHOW USER FORMAT OPTIONS".
ADMIN_FIELDS = ("User", "AdminLevel")
_USER = re.compile(r".*\(([0-9]+)\)")


def config(text: str) -> dict[str, str]:
    """slurm.conf as slurmctld has it, from ``scontrol show config``; the first of a name wins.

    Raises ValueError where that is not what ``text`` is.
    """
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals:
            found.setdefault(name.strip(), value.strip())
    if "SlurmUser" not in found:
        raise ValueError("Slurm did not say who SlurmUser is")
    return found


def accounting_config(text: str) -> dict[str, str]:
    """slurmdbd.conf as slurmdbd has it, from ``sacctmgr show configuration``, which has
    slurm.conf's settings before it. Raises ValueError where that is not what ``text`` is."""
    _, heading, its = text.partition("SlurmDBD configuration:")
    if not heading:
        raise ValueError("sacctmgr did not say how slurmdbd is configured")
    return config(its)


def uid_of(text: str) -> int | None:
    """6197 of "slurm(6197)"; None where there is no number."""
    found = _USER.fullmatch(text)
    return int(found[1]) if found else None


def admin_levels(text: str) -> dict[str, str]:
    """ "None", "Operator" or "Administrator" by user, from ``sacctmgr --parsable2 show user``
    (ADMIN_FIELDS). Raises ValueError for other output."""
    levels = {}
    for line in text.splitlines():
        parts = line.split("|")
        if len(parts) != len(ADMIN_FIELDS):
            raise ValueError("sacctmgr did not print the fields that it was asked for")
        levels[parts[0]] = parts[1]
    return levels
