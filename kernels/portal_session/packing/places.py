"""Packed folders of a user: ``~/.portal/packed`` has a link to each image, and beside it the empty
folder at which containers bind it (deploy/session.sh)."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from . import PackingError

VARIABLE = "PORTAL_PACKED"  # path of the folder that has the packed folders of this session
NAMES = "PORTAL_PACKED_NAMES"  # those that deploy/session.sh has bound, separated by spaces
ENDING = ".sqsh"
# As deploy/session.sh has it. Without ":" and ",", which Apptainer's --bind would read.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def bound(environ: Mapping[str, str]) -> Iterator[tuple[Path, Path]]:
    """Iterate over those that deploy/session.sh found fit for this session's containers: the image,
    and the folder at which it is bound."""
    for name in environ.get(NAMES, "").split():
        folder = Path(environ.get(VARIABLE, "")) / name
        yield folder.with_name(f"{name}{ENDING}"), folder


class Packed(NamedTuple):
    """Packed folder: its name, and the image that the link names."""

    name: str
    image: str


def check_name(name: str) -> str:
    """Return ``name`` if a packed folder can have it. Raises PackingError."""
    if not _NAME.fullmatch(name):
        raise PackingError(
            f"A packed folder cannot be called {name[:100]!r}: a name has letters, digits, dots, "
            "hyphens and underscores. Choose one with --name."
        )
    return name


class Places:
    """Links and folders below ``home``."""

    def __init__(self, home: Path) -> None:
        self.folder = home / ".portal/packed"

    def packed(self) -> list[Packed]:
        """Return the packed folders, by name."""
        with contextlib.suppress(OSError):
            links = sorted(path for path in self.folder.iterdir() if path.is_symlink())
            return [
                Packed(link.name[: -len(ENDING)], str(link.readlink()))
                for link in links
                if link.name.endswith(ENDING) and _NAME.fullmatch(link.name[: -len(ENDING)])
            ]
        return []

    def check_free(self, name: str) -> None:
        """Raise PackingError if another packed folder has this name."""
        link = self.folder / f"{name}{ENDING}"
        if link.is_symlink() or link.exists():
            image = link.readlink() if link.is_symlink() else link
            raise PackingError(
                f"'{name}' is packed already, in {image}. Choose another name with --name, or "
                f"forget that one: portal-pack --forget {name}.",
                409,
            )

    def add_link(self, name: str, image: Path) -> None:
        """Add a packed folder. Raises PackingError, OSError."""
        self.check_free(name)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.folder / name).mkdir(mode=0o700, exist_ok=True)
        (self.folder / f"{name}{ENDING}").symlink_to(image)

    def forget(self, name: str) -> str:
        """Remove a link; return the path of its image, which stays. Raises PackingError."""
        link = self.folder / f"{check_name(name)}{ENDING}"
        try:
            image = str(link.readlink())
            link.unlink()
        except OSError:
            raise PackingError(f"No packed folder is called '{name}'.", 404) from None
        with contextlib.suppress(OSError):  # it is bound in this session
            (self.folder / name).rmdir()
        return image
