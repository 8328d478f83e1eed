"""How a session's start went, step by step."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from .. import Frozen

_Seconds = Annotated[float, Field(ge=0, le=86400, allow_inf_nan=False)]


class Step(StrEnum):
    """What the session itself measures, in the order in which it happens."""

    CONTAINER = "container"  # from the job script's beginning to Python's: mounts, modules
    IMPORTS = "imports"  # until JupyterLab's modules are imported
    EXTENSIONS = "extensions"  # until the server has loaded its extensions and listens
    LISTENING = "listening"  # until the Hub has taken its port
    PAGE = "page"  # from the address to the first JupyterLab that can be used, in a browser


class StartupReport(Frozen):
    """Seconds by step; what is left out stays as it is known."""

    steps: Annotated[dict[Step, _Seconds], Field(min_length=1)]


class StepItem(Frozen):
    """One part of a start, as it is shown. ``name`` for programs, ``title`` for people."""

    name: str
    title: str
    seconds: float


class Startup(Frozen):
    """All parts in their order, and how long it took from the click until the server was ready
    (null while it is not). The page is opened after that, and not part of it."""

    steps: tuple[StepItem, ...]
    ready: float | None = None
