"""What a session is told about TensorBoard: how much memory it may use, and which folders."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from portal.models.environment import Bind, Environment, Kind

if TYPE_CHECKING:
    from .slurm import PortalSpawner


def tensorboard_roots(
    spawner: PortalSpawner, environment: Environment, *, alone: bool = False
) -> list[str]:
    """Absolute paths as the session sees them: `tensorboard_roots` and the writable binds. The
    home is one without being named. ``alone``: nothing of the site is seen there."""
    if alone:
        return []
    binds = [*(Bind(**bind) for bind in spawner.binds), *environment.binds]
    writable = [
        bind.target or bind.source
        if environment.kind is Kind.CONTAINER
        else bind.source  # nothing is bound there: the node's own folders
        for bind in binds
        if not bind.read_only
    ]
    return list(dict.fromkeys([*spawner.tensorboard_roots, *writable]))


def tensorboard_environment(
    spawner: PortalSpawner, environment: Environment, *, alone: bool = False
) -> dict[str, str]:
    """PORTAL_TENSORBOARD_MEMORY in MiB, and PORTAL_TENSORBOARD_ROOTS as a JSON list."""
    roots = tensorboard_roots(spawner, environment, alone=alone)
    return {
        "PORTAL_TENSORBOARD_MEMORY": str(spawner.tensorboard_memory),
        "PORTAL_TENSORBOARD_ROOTS": json.dumps(roots),
    }
