"""Settings: traitlets that a site sets in its configuration file or on a command line.

A traitlet that is no ``setting`` is fixed: only the constructor's arguments set it.
"""

from __future__ import annotations

import inspect
import textwrap
from typing import Any, TypeVar

from traitlets import TraitType
from traitlets.config import Config, Configurable

_Settings = TypeVar("_Settings", bound=Configurable)
_Trait = TypeVar("_Trait", bound=TraitType[Any, Any])


def setting(trait: _Trait, help: str, example: str) -> _Trait:
    """Return ``trait`` as a setting.

    ``help`` begins with a noun, and gives the unit, the meaning of 0 or "", and the limits;
    ``example`` is a line or more of the configuration file, or a command. Both may be indented like
    docstrings. The help that commands and docs/reference/settings.md show ends with the example.

    One that names a file or a folder is tagged for `portal backup`: ``.tag(backup="secret")`` if
    its files are secrets, "files" if they are not, "" if they stay out of a backup.
    """
    block = textwrap.indent(inspect.cleandoc(example), "    ")
    trait.help = f"{inspect.cleandoc(help)}\n\nExample::\n\n{block}"
    return trait.tag(config=True)


class SiteSettings:
    """Settings of a site by their class; each object is made once, from ``config``, unless it is
    among those that are ``made``."""

    def __init__(self, config: Config | None = None, *made: Configurable) -> None:
        self._config = config or Config()
        self._objects: dict[type[Configurable], Configurable] = {
            type(given): given for given in made
        }

    def get(self, kind: type[_Settings]) -> _Settings:
        """Return the settings of this class. Raises TraitError for a wrong value."""
        if kind not in self._objects:
            self._objects[kind] = kind(config=self._config)
        made = self._objects[kind]
        assert isinstance(made, kind)
        return made
