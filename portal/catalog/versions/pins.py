"""Pins: a run keeps the version of its environment, and its repetition gets the same software.

Of an earlier version come the software alone; who may use it, its limits, bind mounts and variables
are those of the environment as it is published now.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

from portal.errors import NotAllowed, NotFound
from portal.models.catalog.catalog import EnvironmentVersion
from portal.models.catalog.environment import USABLE, Environment
from portal.store import Store

from ..files import EnvironmentCatalog

_SOFTWARE = ("kind", "source", "image", "digest", "server", "python", "kernels", "path", "modules")


class Pin(NamedTuple):
    """Version of an environment, 0: not known, and the digest of its image, "": it has none."""

    version: int
    digest: str


class PinLost(NotAllowed):
    """Refusal of a version that cannot be used any more. ``what``: a sentence that says why."""

    def __init__(self, environment: Environment, number: int, reason: str) -> None:
        self.what = f"Version {number} of '{environment.title}' can no longer be used. {reason}"
        super().__init__(f"{self.what} Start a new session, and the run in it.")


async def pin_of(
    catalog: EnvironmentCatalog,
    store: Store,
    name: str,
    since: float | None = None,
    space: str = "",
) -> Pin:
    """Return the pin of an environment as it is now or, with ``since``, as a session has it that
    was submitted then (Unix seconds). A ``space`` may have one of its own. Raises StoreUnavailable,
    NotFound without the space."""
    if space:
        stored = await store.spaces.get(space)
        if stored.space.pins:
            return Pin(0, (stored.pinned.digest if stored.pinned else "") or "")
    await catalog.load()
    current = catalog.environments.get(name)
    if current is None:  # the launch says so
        return Pin(0, "")
    version = (await store.versions.published()).get(name)
    if since is not None and version is not None and (version.published_at or 0.0) > since:
        earlier = await store.versions.published_at(name, since)
        if earlier is not None:
            return Pin(earlier.number, earlier.environment.digest or "")
    if version is None or version.environment.fingerprint != current.fingerprint:
        return Pin(0, current.digest or "")  # the file was edited a moment ago
    return Pin(version.number, current.digest or "")


async def pinned(
    catalog: EnvironmentCatalog, store: Store, environment: Environment, number: int
) -> Environment:
    """Return ``environment``, which is offered to a user, with the software of one of its versions.
    Raises PinLost if that was withdrawn or never published, its image is gone, or a test of it
    failed; StoreUnavailable."""
    name = environment.name
    try:
        version = await store.versions.get(name, number)
    except NotFound:
        raise PinLost(environment, number, "The portal does not know it.") from None
    base = catalog.environments.get(name, environment)
    if version.environment.fingerprint == base.fingerprint:
        return environment
    if reason := await _closed(version):
        raise PinLost(environment, number, reason)
    software = {field: getattr(version.environment, field) for field in _SOFTWARE}
    old = base.model_copy(update=software)
    offer = await catalog.offering.offer_for(old)
    if offer.environment is None:
        raise PinLost(environment, number, offer.reason)
    return offer.environment


async def _closed(version: EnvironmentVersion) -> str:
    """Return why nothing can run in a version; "" if it can."""
    if version.published_at is None:
        return "It was never published."
    if version.state not in USABLE or version.environment.state not in USABLE:
        return f"It was withdrawn. {version.environment.message}".strip()
    image = Path(version.environment.image or "/")
    if await asyncio.to_thread(lambda: image.parent.is_dir() and not image.exists()):
        return "Its image no longer exists."
    return ""
