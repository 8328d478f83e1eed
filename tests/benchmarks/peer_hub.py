"""``python -m jupyterhub`` as without the portal, for the Hubs that ours is compared with.

A Hub imports every installed spawner; here, it does not import ours and its modules.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from jupyterhub import traitlets as hub_traitlets
from jupyterhub.app import main


def _of_others(group: str) -> list[EntryPoint]:
    ours = ("portal", "spawners")
    return [entry for entry in entry_points(group=group) if entry.module.split(".")[0] not in ours]


hub_traitlets.entry_points = _of_others

if __name__ == "__main__":
    main()
