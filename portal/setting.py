"""Settings: traitlets that a site sets in its configuration file or on a command line."""

from __future__ import annotations

import inspect
import textwrap
from typing import Any, TypeVar

from traitlets import TraitType

_Trait = TypeVar("_Trait", bound=TraitType[Any, Any])


def setting(trait: _Trait, help: str, example: str) -> _Trait:
    """Return ``trait`` as a setting.

    ``help`` begins with a noun, and gives the unit, the meaning of 0 or "", and the limits;
    ``example`` is a line or more of the configuration file, or a command. Both may be indented like
    docstrings. The help that commands and docs/reference/settings.md show ends with the example.
    """
    block = textwrap.indent(inspect.cleandoc(example), "    ")
    trait.help = f"{inspect.cleandoc(help)}\n\nExample::\n\n{block}"
    return trait.tag(config=True)
