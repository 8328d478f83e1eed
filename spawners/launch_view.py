"""The view model of the launch form: what the page template is given, and nothing else."""

from __future__ import annotations

from typing import Any

from portal.catalog.tile import Tile
from portal.models import Frozen


class Choice(Frozen):
    """One thing to choose. ``note`` is what is said beside it; ``data`` becomes data-* names."""

    value: str
    label: str
    note: str = ""
    selected: bool = False
    data: dict[str, str] = {}


class Card(Tile):
    """One environment, for this person: ``used`` says when they launched it last, in words."""

    selected: bool = False
    favourite: bool = False
    used: str = ""


class GpuTile(Frozen):
    """One GPU type, or "" for any. Numbers count GPUs."""

    type: str
    title: str
    about: str = ""  # "32 GB, NVLink"
    free: int = 0
    total: int = 0
    out_of_service: int = 0
    simulated: bool = False
    selected: bool = False


class Area(Frozen):
    """One storage area in words; ``used_percent`` None where the size is unknown."""

    title: str
    path: str
    text: str
    used_percent: int | None = None
    warning: bool = False


class LaunchView(Frozen):
    """Everything that the launch form shows. A tuple that is empty is a choice not asked."""

    cards: tuple[Card, ...] = ()
    tags: tuple[str, ...] = ()  # those to filter by, where there are many cards
    gpu_counts: tuple[Choice, ...] = ()
    gpu_most: int = 0  # per node; above 8 the page has a number field instead of buttons
    gpus: int = 0
    gpu_tiles: tuple[GpuTile, ...] = ()  # shown when there is one, asked when there are more
    times: tuple[Choice, ...] = ()
    cpus: str = ""
    cpus_default: str = ""
    cpus_most: int = 0
    cpus_text: str = ""
    memory: str = ""
    memory_default: str = ""
    nodes: str = ""
    nodes_most: int = 1
    more: bool = False  # something under "More" is chosen, so it is not hidden
    partitions: tuple[Choice, ...] = ()
    accounts: tuple[Choice, ...] = ()
    qos: tuple[Choice, ...] = ()
    reservations: tuple[Choice, ...] = ()
    areas: tuple[Area, ...] = ()
    stale: str = ""
    unknown: str = ""
    problems: tuple[str, ...] = ()
    contact: str = ""
    client: dict[str, Any] = {}  # what the page's script needs, JSON

    @property
    def can_start(self) -> bool:
        """Whether the Start button works."""
        return bool(self.cards) and not self.problems
