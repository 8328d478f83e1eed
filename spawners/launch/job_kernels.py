"""Kernels in jobs of their own, as the Hub has them: a named server each, with a new name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from portal.launch.kinds.job_kernel import is_kernel

from ..session import SessionSpawner


def job_kernels(spawner: SessionSpawner) -> list[str]:
    """Return the servers of the owner's other kernels that wait or run. A launch counts from its
    validation on, so that of many at the same moment not all are refused."""
    return [
        name
        for name, other in spawner.user.spawners.items()
        if other is not spawner and is_kernel(name) and other.active and other.last_options
    ]


def forget_ended(user: Any) -> None:
    """Remove the servers of a user's kernels that are over, or were refused, from the Hub's
    database, as JupyterHub itself does (jupyterhub/apihandlers/users.py, UserServerAPIHandler).

    Their records stay. Otherwise each kernel would leave a named server for good.
    """
    over = [
        row
        for name, row in user.orm_spawners.items()
        if is_kernel(name) and row.server is None and _over(user.spawners, name)
    ]
    for row in over:
        user.spawners.pop(row.name, None)
        user.db.delete(row)
    if over:
        user.db.commit()


def _over(spawners: Mapping[str, Any], name: str) -> bool:
    """Return True if a server has no spawner any more, as after a stop, or one that failed; one
    that neither runs nor failed is about to be launched."""
    return name not in spawners or bool(spawners[name]._failed)
