"""Settings: traitlets that a site sets in its configuration file or on a command line.

A traitlet that is no ``setting`` is fixed: only the constructor's arguments set it.
"""

from __future__ import annotations

import inspect
import textwrap
from typing import Any, ClassVar, TypeVar

from traitlets import TraitType
from traitlets.config import Config, Configurable, LoggingConfigurable

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


class RenamedSection(LoggingConfigurable):
    """Base of classes whose section of the configuration had another name, ``former``.

    Settings under that name are read for one version, with a warning that names the new one.
    """

    former: ClassVar[str]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if self.former in self.config:
            self.log.warning(
                "c.%s is now called c.%s: change the configuration before the next version.",
                self.former,
                type(self).__name__,
            )

    @classmethod
    def section_names(cls) -> list[str]:
        """Return the sections that this class reads; later ones win."""
        return [cls.former, *super().section_names()]


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
