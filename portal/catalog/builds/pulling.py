"""Registry access for builds: digests before, files with passwords and mirrors during the job."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from portal.images.registry import pull_files
from portal.images.registry.pull_files import PullFiles
from portal.images.registry.registry import Registries
from portal.images.settings import Images
from portal.models.catalog.catalog import Build
from portal.models.catalog.image import Source, SourceKind, parse_source
from portal.store import Store


class Pulling:
    """Registry files of this process's builds."""

    def __init__(self, registries: Registries, store: Store, images: Images) -> None:
        self._registries, self._store, self._images = registries, store, images
        self._files: dict[int, PullFiles] = {}
        self._sizes: dict[str, int] = {}  # bytes to be pulled, by digest

    async def digest(self, source: Source) -> str:
        """Return the tag's current digest. Raises InvalidRequest (field "source"), Unavailable."""
        image = await self._registries.resolve(source, await self._store.registries.all())
        self._sizes[image.digest] = image.size
        return image.digest

    async def prepare(self, build: Build) -> dict[str, Any]:
        """Write the files for the job of ``build``; return their paths and the size, as ImageJob
        has them. Raises PortalError."""
        source = parse_source(build.source)
        if source.kind is SourceKind.SIF:
            return {}
        await self.clear(build)
        registries = await self._store.registries.all()
        files = await self._registries.hand_over(source, registries, self._images.directory)
        self._files[build.id] = files
        return {**files._asdict(), "size": self._sizes.get(build.digest, 0)}

    async def clear(self, build: Build) -> None:
        """Remove the files of ``build``, whose job is over."""
        files = self._files.pop(build.id, None)
        if files is not None:
            await self._registries.take_back(files)

    async def sweep(self) -> None:
        """Remove the files left by an earlier service. Call it only while no build is live."""
        keep = tuple(self._files.values())
        await asyncio.to_thread(pull_files.sweep, Path(self._images.directory), keep)
