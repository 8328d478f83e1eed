"""What of the catalog is offered: only what is known to work.

A container, and whatever a person registered for themselves, is offered where its newest test
passed, on the GPU types where it passed. Modules and virtual environments, which the site changes
in place, are offered unless their newest test failed.
"""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from portal.errors import PortalError
from portal.models.catalog import Verdict
from portal.models.environment import USABLE, Environment, EnvironmentState, Kind
from portal.models.offered import OfferedEnvironment
from portal.store import Store

Mark = tuple[int, int]  # size and mtime_ns of an image file
UNTYPED = "gpu"  # the GPU type of a cluster that names none (models.cluster.GpuPool)
NOT_TESTED = "It has not been tested yet."
NOT_KNOWN = "What its tests said is not known now: the portal's database does not answer."


class Offer(NamedTuple):
    """``environment``: as it may be launched; None: not at all, and ``reason`` is why."""

    environment: Environment | None
    reason: str = ""


def needs_test(environment: Environment) -> bool:
    """Whether it is offered only after a test has passed."""
    return environment.kind is Kind.CONTAINER or environment.private


def changed(verdict: Verdict, mark: Mark | None) -> bool:
    """Whether the image file is known to be another one than the one that was tested."""
    return verdict.mark is not None and mark is not None and tuple(verdict.mark) != mark


def offer_of(environment: Environment, tested: Mapping[str, Verdict], mark: Mark | None) -> Offer:
    """What ``tested`` (by GPU type; "" is without GPUs) lets be offered of ``environment``.

    ``mark``: of its image file now; None where that cannot be seen from here, or is a directory.
    """
    closed = closed_reason(environment)
    if closed:
        return Offer(None, closed)
    base = tested.get("")
    if needs_test(environment):
        if base is None:
            return Offer(None, NOT_TESTED)
        if changed(base, mark):
            return Offer(None, "Its image was changed after its last test; it is tested again.")
    if base is not None and not base.passed:
        return Offer(None, f"Its test failed: {base.message}")
    return Offer(_narrowed(environment, tested))


def closed_reason(environment: Environment) -> str:
    """Why its file alone keeps it from being offered; "" when it does not."""
    if environment.state is EnvironmentState.WITHDRAWN:
        return f"It was withdrawn. {environment.message}".strip()
    if environment.state not in USABLE:
        return f"Its file says that it is '{environment.state}'."
    if environment.kind is Kind.CONTAINER and not environment.image:
        return "It has no image yet: build one from its source."
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


class Offering:
    """What is known of tests, kept while the database is away, and the offers that follow.

    ``age``: seconds for which an answer of the database is fresh; ``patience``: seconds that a
    caller waits for a newer one; ``untested``: everything is offered, whatever tests say.
    """

    def __init__(
        self,
        store: Store | None,
        *,
        age: float,
        patience: float,
        log: Any,
        untested: bool = False,
    ) -> None:
        self._store, self._age, self._patience, self._log = store, age, patience, log
        self._untested = untested or store is None  # offered whatever tests say
        self.verdicts: dict[str, dict[str, Verdict]] | None = None
        self.marks: dict[str, Mark] = {}
        self._asked_at = float("-inf")
        self._asking: asyncio.Task[None] | None = None
        self._asked: set[asyncio.Task[None]] = set()  # asyncio itself keeps only weak references
        self._number = self._answer = 0  # of the newest question, and of the one that answered last
        self._made: tuple[Any, ...] = ()
        self._offers: dict[str, Offer] = {}

    async def refresh(self, environments: Mapping[str, Environment]) -> None:
        """Look again where the last look is old. Raises nothing: what was known stays."""
        if self._store is None:
            return
        now = asyncio.get_running_loop().time()
        if self._asking is None or self._asking.done():
            if now - self._asked_at < self._age:
                return
            self._asked_at = now
            self._number += 1
            self._asking = asyncio.create_task(self._ask(environments, self._number))
            self._asked.add(self._asking)
            self._asking.add_done_callback(self._answered)
        await asyncio.wait({self._asking}, timeout=self._patience)

    def forget(self) -> None:
        """Something was tested just now: the next one who asks gets it."""
        self._asked_at = float("-inf")
        self._asking = None  # its answer may be from before

    def offers(self, environments: Mapping[str, Environment]) -> dict[str, Offer]:
        """The offer for every one of ``environments``, by name. Asks nobody."""
        made = (environments, self.verdicts, self.marks)
        if not (
            len(self._made) == 3 and all(a is b for a, b in zip(self._made, made, strict=True))
        ):
            self._offers = {name: self._offer(one) for name, one in environments.items()}
            self._made = made
        return self._offers

    async def of(self, environment: Environment) -> Offer:
        """The offer for one that need not be in the catalog: another version, which is pinned.
        It goes by what was known at the last ``refresh``."""
        if self._untested or self.verdicts is None:
            return self._offer(environment)
        mark = await asyncio.to_thread(mark_of, environment.image) if environment.image else None
        return offer_of(environment, self.tested(environment), mark)

    def tested(self, environment: Environment) -> dict[str, Verdict]:
        """What is known of its tests, by GPU type."""
        return (self.verdicts or {}).get(environment.fingerprint, {})

    def mark_of(self, environment: Environment) -> Mark | None:
        """Of its image file at the last look."""
        return self.marks.get(environment.image or "")

    def _offer(self, environment: Environment) -> Offer:
        if self._untested:
            reason = closed_reason(environment)
            return Offer(None, reason) if reason else Offer(environment)
        if self.verdicts is None and needs_test(environment) and not closed_reason(environment):
            return Offer(None, NOT_KNOWN)
        return offer_of(environment, self.tested(environment), self.mark_of(environment))

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._asked.discard(task)
        if not task.cancelled() and task.exception():
            self._log.error("Verdicts of tests could not be read", exc_info=task.exception())

    async def _ask(self, environments: Mapping[str, Environment], number: int) -> None:
        assert self._store is not None
        images = {one.image for one in environments.values() if one.image}
        marks = await asyncio.to_thread(_marks, images)
        if number < self._answer:
            return
        if marks != self.marks:
            self.marks = marks
        try:
            verdicts = await self._store.tests.outcomes()
        except PortalError:
            return  # the store says so in the log, once
        if number < self._answer:
            return
        self._answer = number
        if verdicts != self.verdicts:
            self.verdicts = verdicts


def mark_of(image: str) -> Mark | None:
    """Size and mtime_ns of an image file; None where it cannot be seen, or is no file. Blocks."""
    try:
        found = Path(image).stat()
    except OSError:
        return None
    return (found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None


def _marks(images: Iterable[str]) -> dict[str, Mark]:
    found = {image: mark_of(image) for image in images}
    return {image: mark for image, mark in found.items() if mark is not None}
