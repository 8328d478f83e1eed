"""Accounts with their use and limits, as slurmctld enforces them: ``scontrol show assoc_mgr``."""

from __future__ import annotations

import re
from typing import NamedTuple

from ...models.cluster.account_limits import TresLimit
from .gres import tres

# "gres/gpu=600(12)": the limit and the use; "cpu=N(3)": no limit.
_LIMIT = re.compile(r"([0-9]+)\(([0-9]+)\)")
_FIELD = re.compile(r"(?:^|\s)(Account|UserName|ParentAccount|GrpTRESMins)=(\S*)")
_PARENT = re.compile(r"(.*)\([0-9]*\)")


class AccountRow(NamedTuple):
    """An account: its parent ("" for the root) and its limits on TRES minutes."""

    parent: str
    limits: tuple[TresLimit, ...]


def account_rows(text: str) -> dict[str, AccountRow]:
    """Parse accounts by name from ``scontrol --oneliner show assoc_mgr flags=assoc``; the rows of
    users are left out. Raises ValueError for a row without these fields."""
    rows = {}
    for line in text.splitlines():
        if not line.startswith("ClusterName="):
            continue  # headings
        fields = dict(_FIELD.findall(line))
        if {"Account", "UserName", "GrpTRESMins"} - fields.keys():
            raise ValueError("scontrol did not print the limits of an association")
        account = fields["Account"]
        if not fields["UserName"] and account:
            parent = _PARENT.fullmatch(fields.get("ParentAccount", ""))
            limits = _limits(account, fields["GrpTRESMins"])
            rows[account] = AccountRow(parent[1] if parent else "", limits)
    return rows


def _limits(account: str, text: str) -> tuple[TresLimit, ...]:
    found = ((name, _LIMIT.fullmatch(value)) for name, value in tres(text).items())
    return tuple(
        TresLimit(account=account, tres=name, limit=int(match[1]), used=int(match[2]))
        for name, match in found
        if match
    )
