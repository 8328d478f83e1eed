"""Image files: which exist, what needs each, and which are unused.

An image is needed by an environment's file, by a version that is published, previewed or still on
its way, by a live build or test, and by every session that may have started in it. In doubt, an
image is kept.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from portal.errors import ConfigurationError
from portal.models.catalog.environment import EnvironmentState
from portal.store import Store

# Names given by builds: digest and recipe. Other files were put there, and are removed, by hand.
_NAME = re.compile(r"[0-9a-f]{64}-[0-9a-f]{10}\.sif")
_ON_THE_WAY = (
    EnvironmentState.DRAFT,
    EnvironmentState.BUILDING,
    EnvironmentState.TESTING,
    EnvironmentState.READY,  # tested, to be published
)
_PAGE = 500


class ImageFile(NamedTuple):
    """Image file. ``needed_by``: what needs it, in words; empty: unused. ``age`` in seconds."""

    path: Path
    size: int
    age: float
    needed_by: tuple[str, ...]


class ImageFiles:
    """Images below ``directory``; ``catalogs`` are the folders with environments' files."""

    def __init__(self, directory: str, catalogs: Iterable[str], store: Store) -> None:
        self.directory, self.catalogs = Path(directory), [Path(folder) for folder in catalogs]
        self._store = store

    async def all(self) -> list[ImageFile]:
        """Return all images of builds, by name. Raises ConfigurationError, StoreUnavailable."""
        # Files first, so that an image finished meanwhile is not among them.
        files = self._there()
        needs = await self._needs()
        return [
            ImageFile(path, size, age, tuple(sorted(needs.get(path.name, ()))))
            for path, size, age in files
        ]

    def remove(self, image: ImageFile) -> None:
        """Remove an unused image. Raises ConfigurationError."""
        try:
            image.path.unlink(missing_ok=True)
        except OSError as error:
            raise ConfigurationError(
                f"{image.path} cannot be removed: {error.strerror}. Run this as the account of the "
                "builds."
            ) from None

    def _there(self) -> list[tuple[Path, int, float]]:
        try:
            paths = sorted(self.directory.iterdir())
        except OSError as error:
            raise ConfigurationError(
                f"{self.directory} (c.Images.directory) cannot be read: {error.strerror}."
            ) from None
        now, files = time.time(), []
        for path in paths:
            if _NAME.fullmatch(path.name) and path.is_file() and not path.is_symlink():
                status = path.stat()
                files.append((path, status.st_size, now - status.st_mtime))
        return files

    async def _needs(self) -> Mapping[str, set[str]]:
        """Return what needs each image, by the image's file name."""
        needs: dict[str, set[str]] = {}

        def note(image: str | None, by: str) -> None:
            if image:
                needs.setdefault(Path(image).name, set()).add(by)

        for file, text in self._texts():
            for name in _NAME.findall(text):
                note(name, f"file {file}")
        published = await self._store.versions.published()
        newest = (await self._store.versions.newest()).values()
        for version in published.values():
            note(version.environment.image, f"{version.name} (published)")
        for version in (*newest, *await self._store.versions.in_state(*_ON_THE_WAY)):
            known = published.get(version.name)
            if known is None or version.number > known.number:
                note(version.environment.image, f"{version.name} version {version.number}")
        for build in await self._store.builds.live():
            note(f"{build.key}.sif", f"build {build.id}")
        names: dict[str, int] = {}
        for session in await self._store.sessions.living():
            names[session.environment] = names.get(session.environment, 0) + 1
        for name, count in names.items():
            # The version in which it started is unknown: all of them are needed.
            async for image in self._of_all_versions(name):
                note(image, f"{count} running session{'s' if count > 1 else ''} of {name}")
        return needs

    async def _of_all_versions(self, name: str) -> AsyncIterator[str | None]:
        offset = 0
        while True:
            page, total = await self._store.versions.of_environment(name, offset, _PAGE)
            for version in page:
                yield version.environment.image
            offset += _PAGE
            if offset >= total:
                return

    def _texts(self) -> Iterable[tuple[str, str]]:
        """Yield every file of the catalogs with its raw text: one that cannot be parsed now may
        be mended later."""
        for folder in self.catalogs:
            if not folder.exists():
                continue
            for path in sorted((*folder.rglob("*.yaml"), *folder.rglob("*.yml"))):
                try:
                    yield path.name, path.read_text(errors="replace")
                except OSError as error:
                    raise ConfigurationError(
                        f"{path} cannot be read ({error.strerror}), so the images that it "
                        "needs are unknown."
                    ) from None
