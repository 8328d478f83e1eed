"""Check of the free space on the disks that the portal writes to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import make_url

from portal.disk import LEAST, free
from portal.images.settings import Images
from portal.store import Store

from ..finding import Result, check, failure, ok, warning, worst
from ..site import Site

_LITTLE = 1024**3  # bytes; warn below it


@check("disk", "The portal's disks have free space")
async def disk(site: Site) -> Result:
    folders = dict(_folders(site))
    return worst([await asyncio.to_thread(_space, name, path) for name, path in folders.items()])


def _folders(site: Site) -> Iterator[tuple[str, Path]]:
    """Yield what is written, and where."""
    hub = make_url(site.of_hub("db_url"))
    if hub.get_backend_name() == "sqlite" and hub.database:
        yield "the Hub's database", Path(hub.database).absolute()
    store = Store(config=site.config, log=site.log)
    if store.database.address.path is not None:
        yield "the portal's database", store.database.address.path
    kind = site.spawner
    if "log_directory" in kind.class_traits():
        yield "the sessions' logs", Path(site.setting(kind, "log_directory"))
    if site.config.get("Images"):
        yield "the logs of builds", Path(Images(config=site.config).log_directory)


def _space(name: str, path: Path) -> Result:
    left = free(path)
    if left is None:
        return ok(f"{name}: the free space at {path} is unknown")
    message = f"{name}, {path}: {left / 1024**3:.1f} GiB free"
    advice = "Free up space there, or move it to another disk: docs/how-to/full-disk.md."
    if left < LEAST:
        return failure(f"{message}; no new work is started", advice)
    if left < _LITTLE:
        return warning(message, advice)
    return ok(message)
