"""Rights in Slurm: SlurmUser from ``scontrol show config``, AdminLevel from sacctmgr."""

from __future__ import annotations

import re

# sacctmgr(1) "LIST/SHOW USER FORMAT OPTIONS".
ADMIN_FIELDS = ("User", "AdminLevel")
_USER = re.compile(r".*\(([0-9]+)\)")


def config(text: str) -> dict[str, str]:
    """Parse slurmctld's slurm.conf from ``scontrol show config``; the first value of a name wins.

    Raises ValueError for other output.
    """
    settings: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals:
            settings.setdefault(name.strip(), value.strip())
    if "SlurmUser" not in settings:
        raise ValueError("Slurm did not say who SlurmUser is")
    return settings


def accounting_config(text: str) -> dict[str, str]:
    """Parse slurmdbd's slurmdbd.conf from ``sacctmgr show configuration``, which has slurm.conf's
    settings before it. Raises ValueError for other output."""
    _, heading, settings = text.partition("SlurmDBD configuration:")
    if not heading:
        raise ValueError("sacctmgr did not say how slurmdbd is configured")
    return config(settings)


def uid_of(text: str) -> int | None:
    """Return 6197 for "slurm(6197)"; None if there is no number."""
    match = _USER.fullmatch(text)
    return int(match[1]) if match else None


def admin_levels(text: str) -> dict[str, str]:
    """Parse "None", "Operator" or "Administrator" by user, from ``sacctmgr --parsable2 show user``
    (ADMIN_FIELDS). Raises ValueError for other output."""
    levels = {}
    for line in text.splitlines():
        parts = line.split("|")
        if len(parts) != len(ADMIN_FIELDS):
            raise ValueError("sacctmgr did not print the requested fields")
        levels[parts[0]] = parts[1]
    return levels
