"""Removal of batchspawner's route for ports; ``spawners.api.port`` has the portal's."""

from __future__ import annotations

import batchspawner.api
from jupyterhub import apihandlers

from .patch import Patch


def apply() -> None:
    """Remove the route from the Hub's API. Call it before the Hub builds its handlers."""
    rows = apihandlers.default_handlers
    rows[:] = [row for row in rows if row[1] is not batchspawner.api.BatchSpawnerAPIHandler]


PATCH = Patch(
    name="stock-port-route",
    changes=("batchspawner.api:BatchSpawnerAPIHandler",),
    why=(
        "Security: it sets any attribute that a session's token posts, exec_prefix included, which "
        "batchspawner's spawners run in a shell, so any user could run code as the Hub. "
        "batchspawner registers it when it is imported."
    ),
    upstream="none (https://github.com/jupyterhub/batchspawner/pull/58 brought the route)",
    until="batchspawner registers nothing on import, or takes a port and nothing else.",
    apply=apply,
)
