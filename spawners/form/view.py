"""View model of the launch form: all that the page template is given."""

from __future__ import annotations

from typing import Any

from portal.catalog.offers.tile import Tile
from portal.launch.choices.field_choices import Choice, FoldedField
from portal.models import Frozen


class Card(Tile):
    """Environment, for this person: ``used`` says when they launched it last, in words."""

    selected: bool = False
    favourite: bool = False
    used: str = ""


class GpuTile(Frozen):
    """GPU type, or "" for any. Numbers count GPUs."""

    type: str
    title: str
    about: str = ""  # "32 GB, NVLink"
    free: int = 0
    total: int = 0
    asleep: str = ""  # how many are switched on when needed, in words
    out_of_service: int = 0
    simulated: bool = False
    selected: bool = False
    memory: int = 0  # GB of its own; 0: not known, or shared with other jobs


class Area(Frozen):
    """Storage area in words; ``used_percent`` None if the size is unknown."""

    title: str
    path: str
    text: str
    used_percent: int | None = None
    warning: bool = False


class SpaceField(Frozen):
    """Choice of a space for the session, of one type; the first is the user alone."""

    option: str
    label: str
    choices: tuple[Choice, ...]


class LaunchView(Frozen):
    """Content of the launch form. An empty tuple is a choice that is not offered."""

    cards: tuple[Card, ...] = ()
    tags: tuple[str, ...] = ()  # to filter by, if there are many cards
    spaces: tuple[SpaceField, ...] = ()
    kinds: tuple[Choice, ...] = ()  # what a session opens
    gpu_counts: tuple[Choice, ...] = ()
    gpu_most: int = 0  # per node; above 8 the page has a number field instead of buttons
    gpus: int = 0
    gpu_tiles: tuple[GpuTile, ...] = ()  # shown if there is a single one, else offered
    gpu_memories: tuple[int, ...] = ()  # GB to choose a type by, on a cluster with slices
    times: tuple[Choice, ...] = ()
    cpus_text: str = ""
    folded: tuple[FoldedField, ...] = ()
    more: bool = False  # something under "More" is chosen, so it is not hidden
    areas: tuple[Area, ...] = ()
    stale: str = ""
    unknown: str = ""
    problems: tuple[str, ...] = ()
    contact: str = ""
    client: dict[str, Any] = {}  # what the page's script needs, JSON

    @property
    def can_start(self) -> bool:
        """Return True if the Start button works."""
        return bool(self.cards) and not self.problems
