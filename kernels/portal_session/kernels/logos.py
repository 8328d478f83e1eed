"""Logos of languages, for kernelspecs that have none: the Bash kernel's, those of a container
beside this server, and those of kernels in jobs whose environment is another."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Sequence
from pathlib import Path

# Packages of this server's own environment that have one, by the kernelspec's language.
_PACKAGES = {"python": "ipykernel", "bash": "bash_kernel"}
_FOLDER = "{resource_dir}"  # in a command: the kernelspec's own folder (jupyter_client)


def folder_with_logo(folder: str, language: str, argv: Sequence[str]) -> str:
    """Return the folder of a kernelspec, or one with the logo of its ``language`` if it has none
    and ``argv``, its command, does not need its own."""
    has_logo = bool(folder) and any(Path(folder).glob("logo-*"))
    if has_logo or any(_FOLDER in word for word in argv):
        return folder
    return _folder_of(language.lower()) or folder


@functools.cache
def _folder_of(language: str) -> str:
    """Return the folder with the logo of a language; "" without one."""
    package = _PACKAGES.get(language)
    spec = importlib.util.find_spec(package) if package else None
    places = (spec.submodule_search_locations if spec else None) or ()
    folders = (Path(place, "resources") for place in places)
    return next((str(folder) for folder in folders if folder.is_dir()), "")
