"""Settings: traitlets that a site sets in its configuration file or on a command line."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from traitlets import TraitType

_Trait = TypeVar("_Trait", bound=TraitType[Any, Any])


def setting(trait: _Trait, help: str, example: str) -> _Trait:
    """Return ``trait`` as a setting.

    ``help`` begins with a noun, and gives the unit, the meaning of 0 or "", and the limits; it may
    be indented like a docstring. ``example`` is a line of the configuration file, or a command.
    The help that commands and docs/reference/settings.md show ends with it.
    """
    trait.help = f"{inspect.cleandoc(help)}\n\nExample::\n\n    {example}"
    return trait.tag(config=True)
