"""Timing of a session's start, step by step."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from .. import Frozen

_Seconds = Annotated[float, Field(ge=0, le=86400, allow_inf_nan=False)]


class Step(StrEnum):
    """Steps that the session itself measures, in the order in which they happen."""

    CONTAINER = "container"  # from the job script's beginning to Python's: mounts, modules
    IMPORTS = "imports"  # until JupyterLab's modules are imported
    EXTENSIONS = "extensions"  # until the server has loaded its extensions and listens
    LISTENING = "listening"  # until the Hub has taken its port
    PAGE = "page"  # from the address to the first JupyterLab that can be used, in a browser


class StartupReport(Frozen):
    """Seconds by step; the values of omitted steps do not change."""

    steps: Annotated[dict[Step, _Seconds], Field(min_length=1)]


class StepItem(Frozen):
    """Step of a start, as shown. ``name`` is for programs, ``title`` for people."""

    name: str
    title: str
    seconds: float


class Startup(Frozen):
    """Steps of a start in their order, and seconds from the click until the server was ready
    (null: not yet). Opening the page follows after that and is not included."""

    steps: tuple[StepItem, ...]
    ready: float | None = None
