"""Other launches of a user, beside the one that is validated: each is a named server of the Hub.
What has no server of its own, such as a run, has a new name each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from portal.launch.kinds.kind import OtherLaunch

from ..session import SessionSpawner, kind_of_row


def other_launches(spawner: SessionSpawner) -> list[OtherLaunch]:
    """Return the owner's other sessions that wait or run. A launch counts from its validation on,
    so that of many at the same moment not all are refused."""
    return [
        OtherLaunch(other.work, other.space, _options(other), str(other.job_id or ""))
        for other in spawner.user.spawners.values()
        if other is not spawner and other.active and other.last_options
    ]


def _options(spawner: Any) -> dict[str, Any]:
    """Return a session's options; those it is about to get, if they have more GPUs."""
    own: dict[str, Any] = spawner.last_options
    moving = getattr(spawner, "moving", None)
    if moving is None or not moving.live:
        return own
    later: dict[str, Any] = moving.current.options
    return later if (later.get("gpus") or 0) > (own.get("gpus") or 0) else own


def forget_ended(user: Any) -> None:
    """Remove the servers of a user's kernels and runs that are over, or were refused, from the
    Hub's database, as JupyterHub itself does (jupyterhub/apihandlers/users.py,
    UserServerAPIHandler).

    Their records stay. Otherwise each of them would leave a named server for good.
    """
    over = [
        row
        for name, row in user.orm_spawners.items()
        if row.server is None and not kind_of_row(row).serves and _over(user.spawners, name)
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
