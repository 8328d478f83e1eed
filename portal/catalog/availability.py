"""Availability of environments: only what is known to work is offered.

Containers, and environments that users registered for themselves, are offered if their newest test
passed, on the GPU types where it passed. Modules and virtual environments, which the site changes
in place, are offered unless their newest test failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import stat
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from portal.cache import SharedAnswer
from portal.errors import PortalError
from portal.models.catalog.catalog import Verdict
from portal.models.catalog.environment import (
    USABLE,
    Environment,
    EnvironmentKind,
    EnvironmentState,
    OfferedEnvironment,
)
from portal.store import Store

Mark = tuple[int, int]  # size and mtime_ns of an image file
Verdicts = Mapping[str, dict[str, Verdict]]  # by fingerprint, then by GPU type
UNTYPED = "gpu"  # the GPU type of a cluster that names none (models.cluster.GpuPool)
NOT_TESTED = "Not tested yet."
NOT_KNOWN = "Test results are unavailable: the portal's database does not answer."


class Offer(NamedTuple):
    """Offer. ``environment``: as it may be launched; None: not at all, and ``reason`` is why."""

    environment: Environment | None
    reason: str = ""


def needs_test(environment: Environment) -> bool:
    """Return True if the environment is offered only after a test has passed."""
    return environment.kind is EnvironmentKind.CONTAINER or environment.private


def changed(verdict: Verdict, mark: Mark | None) -> bool:
    """Return True if the image file is known to differ from the one that was tested."""
    return verdict.mark is not None and mark is not None and tuple(verdict.mark) != mark


def offer_of(environment: Environment, tested: Mapping[str, Verdict], mark: Mark | None) -> Offer:
    """Return the offer that ``tested`` (by GPU type; "": without GPUs) allows of ``environment``.

    ``mark``: of its image file now; None if that cannot be seen from here, or is a directory.
    """
    closed = closed_reason(environment)
    if closed:
        return Offer(None, closed)
    base = tested.get("")
    if needs_test(environment):
        if base is None:
            return Offer(None, NOT_TESTED)
        if changed(base, mark):
            return Offer(
                None, "The image was changed after its last test and must be tested again."
            )
    if base is not None and not base.passed:
        return Offer(None, f"The test failed: {base.message}")
    return Offer(_narrowed(environment, tested))


def closed_reason(environment: Environment) -> str:
    """Return why its file alone keeps it from being offered; "" if it does not."""
    if environment.state is EnvironmentState.WITHDRAWN:
        return f"Withdrawn. {environment.message}".strip()
    if environment.state not in USABLE:
        return f"The state in its file is '{environment.state}'."
    if environment.kind is EnvironmentKind.CONTAINER and not environment.image:
        return "No image yet. Build one from the source."
    return ""


def _narrowed(environment: Environment, tested: Mapping[str, Verdict]) -> Environment:
    types = {name: verdict for name, verdict in tested.items() if name}
    refusals = {
        name: f"'{environment.title}' does not work on {name} GPUs: its test failed there. "
        f"{verdict.message}".strip()
        for name, verdict in types.items()
        if not verdict.passed and name in (environment.gpu_types or types)
    }
    if not needs_test(environment):
        left = tuple(name for name in environment.gpu_types if name not in refusals)
        update: dict[str, Any] = {"gpu_types": left}
        if environment.gpu_types and not left:
            update["max_gpus"] = 0
    else:
        passed = tuple(name for name, verdict in types.items() if verdict.passed)
        left = tuple(name for name in environment.gpu_types or sorted(passed) if name in passed)
        for name in environment.gpu_types:
            if name not in types:
                refusals[name] = (
                    f"'{environment.title}' has not been tested on {name} GPUs yet, so it is not "
                    "offered there."
                )
        update = {"gpu_types": () if left == (UNTYPED,) else left}
        if not left:
            update["max_gpus"] = 0
    unchanged = all(getattr(environment, name) == value for name, value in update.items())
    if unchanged and not refusals:
        return environment
    fields = {name: getattr(environment, name) for name in environment.model_fields_set}
    return OfferedEnvironment.model_construct(
        environment.model_fields_set | set(update), **{**fields, **update}, refusals=refusals
    )


class KnownVerdicts(NamedTuple):
    """Verdicts of tests (None: never read from the database), and marks of image files."""

    verdicts: Verdicts | None = None
    marks: Mapping[str, Mark] = {}


class OfferCache:
    """Cache of the verdicts of tests, kept while the database is away, and the resulting offers.

    ``age``: seconds for which an answer of the database is fresh; ``patience``: seconds that a
    caller waits for a newer one; ``untested``: everything is offered, whatever tests say.
    """

    def __init__(
        self,
        store: Store | None,
        *,
        age: float,
        patience: float,
        untested: bool = False,
    ) -> None:
        self._store = store
        self._untested = untested or store is None  # offered whatever tests say
        self.known = SharedAnswer[KnownVerdicts](ttl=age, patience=patience, first=KnownVerdicts())
        self._made: tuple[Any, ...] = ()
        self._offers: dict[str, Offer] = {}

    @property
    def verdicts(self) -> Verdicts | None:
        """Verdicts of tests; None if they were never read from the database."""
        return (self.known.last or KnownVerdicts()).verdicts

    @property
    def marks(self) -> Mapping[str, Mark]:
        """Marks of image files, as far as they can be seen from here."""
        return (self.known.last or KnownVerdicts()).marks

    async def refresh(self, environments: Mapping[str, Environment]) -> None:
        """Read verdicts and marks again if they are old. Raises nothing: the known ones stay."""
        store = self._store
        if store is not None:
            await self.known.get(lambda: self._look(store, environments))

    def forget(self) -> None:
        """Invalidate the verdicts after a test, so that the next caller gets the new ones."""
        self.known.invalidate()

    def offers(self, environments: Mapping[str, Environment]) -> dict[str, Offer]:
        """Return the offers of all ``environments``, by name, without asking the database."""
        inputs = (environments, self.verdicts, self.marks)
        if not (
            len(self._made) == 3 and all(a is b for a, b in zip(self._made, inputs, strict=True))
        ):
            self._offers = {
                name: self._offer(environment) for name, environment in environments.items()
            }
            self._made = inputs
        return self._offers

    async def offer_for(self, environment: Environment) -> Offer:
        """Return the offer of an environment that need not be in the catalog (another version,
        which is pinned), by the verdicts of the last ``refresh``."""
        if self._untested or self.verdicts is None:
            return self._offer(environment)
        mark = await asyncio.to_thread(mark_of, environment.image) if environment.image else None
        return offer_of(environment, self.tested(environment), mark)

    def tested(self, environment: Environment) -> dict[str, Verdict]:
        """Return the known verdicts of its tests, by GPU type."""
        return (self.verdicts or {}).get(environment.fingerprint, {})

    def gpu_types(self, environment: Environment, cluster_types: Collection[str]) -> list[str]:
        """Return the GPU types among ``cluster_types`` on which its test passed, sorted; all of
        them if everything is offered, whatever tests say."""
        tested = self.tested(environment)
        return [
            name
            for name in sorted(cluster_types)
            if self._untested or (name in tested and tested[name].passed)
        ]

    def mark_of(self, environment: Environment) -> Mark | None:
        """Return the mark of its image file, as last read."""
        return self.marks.get(environment.image or "")

    def _offer(self, environment: Environment) -> Offer:
        if self._untested:
            reason = closed_reason(environment)
            return Offer(None, reason) if reason else Offer(environment)
        if self.verdicts is None and needs_test(environment) and not closed_reason(environment):
            return Offer(None, NOT_KNOWN)
        return offer_of(environment, self.tested(environment), self.mark_of(environment))

    async def _look(self, store: Store, environments: Mapping[str, Environment]) -> KnownVerdicts:
        images = {environment.image for environment in environments.values() if environment.image}
        marks, verdicts = await asyncio.to_thread(_marks, images), self.verdicts
        with contextlib.suppress(PortalError):  # the store says so in the log, once
            verdicts = await store.tests.outcomes()
        # Equal values stay the same object, so that offers made from them still hold.
        return KnownVerdicts(
            self.verdicts if verdicts == self.verdicts else verdicts,
            self.marks if marks == self.marks else marks,
        )


def mark_of(image: str) -> Mark | None:
    """Return size and mtime_ns of an image; None if it cannot be seen or is no file. Blocks."""
    try:
        status = Path(image).stat()
    except OSError:
        return None
    return (status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else None


def _marks(images: Iterable[str]) -> dict[str, Mark]:
    marks = {image: mark_of(image) for image in images}
    return {image: mark for image, mark in marks.items() if mark is not None}
