"""The QOS and their limits, from sacctmgr."""

from __future__ import annotations

from ...models.cluster.cluster import Qos
from .gres import amount, tres
from .values import mebibytes, names, seconds

# sacctmgr(1) "LIST/SHOW QOS FORMAT OPTIONS"; each limit with whom it limits.
_LIMITS = {
    "MaxTRES": "job",
    "MaxTRESPerUser": "user",
    "MaxTRESPerAccount": "account",
    "GrpTRES": "group",
    "MaxTRESPerNode": "node",
}
QOS_FIELDS = ("Name", "Flags", "MaxWall", *_LIMITS)


def qos(text: str) -> dict[str, Qos]:
    """Parse QOS by name from ``sacctmgr --parsable2 show qos`` (QOS_FIELDS)."""
    by_name = {}
    for line in text.splitlines():
        parts = line.split("|")
        if len(parts) != len(QOS_FIELDS):
            raise ValueError("sacctmgr did not print the requested fields")
        row = dict(zip(QOS_FIELDS, parts, strict=True))
        limits = {whose: _limits(row[field]) for field, whose in _LIMITS.items()}
        by_name[row["Name"]] = Qos(
            name=row["Name"],
            max_wall=seconds(row["MaxWall"]),
            max_tres={whose: amounts for whose, amounts in limits.items() if amounts},
            flags=names(row["Flags"]),
        )
    return by_name


def _limits(text: str) -> dict[str, int]:
    """Parse {"cpu": 8, "mem": 4096, "gres/gpu": 2} of "cpu=8,mem=4G,gres/gpu=2"; memory in MiB."""
    limits = {}
    for name, value in tres(text).items():
        limit = mebibytes(value) if name == "mem" else amount(value)
        if limit is not None:
            limits[name] = limit
    return limits
