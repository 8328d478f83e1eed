"""What people see of the catalog: tiles in their own order, and one environment with all that is
known of it. Where the database is away, what the files say is shown all the same."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Iterable
from typing import TypeVar

from pydantic import ValidationError

from portal.errors import StoreUnavailable
from portal.models import Frozen
from portal.models.catalog import EnvironmentTest, EnvironmentVersion, Measured, Verdict
from portal.models.environment import Environment
from portal.models.image_job import Facts, KernelResult, WorkState
from portal.models.offered import refusals_of
from portal.models.person import Person
from portal.models.session import SessionRecord
from portal.store import Store

from .files import EnvironmentCatalog
from .habits import NO_HABITS, habits_of, ordered
from .measured import measured
from .tile import Tile, Tiles, version_rows, versions_of

T = TypeVar("T")
_VERSIONS = 5  # of the history, on an environment's page


class GpuOffer(Frozen):
    """What one GPU type is for an environment: ``offered``, or ``reason`` why not; when its test
    was (Unix seconds) and what was measured at most, in images per second."""

    type: str  # "": without GPUs
    offered: bool
    reason: str = ""
    tested_at: float | None = None
    images_per_second: float | None = None
    simulated: bool = False


class Shown(Frozen):
    """One environment on the page of the catalog, for one person. ``reason``: why it is not
    offered; only those who curate are shown such."""

    tile: Tile
    favourite: bool = False
    last_used: float | None = None
    gpus: tuple[GpuOffer, ...] = ()
    any_gpu: bool = True  # it runs on every type
    reason: str = ""


class Whole(Frozen):
    """One environment with everything inside. ``size`` in bytes; ``versions`` are (title, version);
    ``tests`` are the newest, by GPU type; ``packages`` "name==version"."""

    shown: Shown
    environment: Environment
    versions: tuple[tuple[str, str], ...] = ()
    distribution: str = ""
    architecture: str = ""
    packages: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    size: int | None = None
    kernels: tuple[KernelResult, ...] = ()
    tests: dict[str, EnvironmentTest] = {}
    measured: tuple[Measured, ...] = ()
    history: tuple[EnvironmentVersion, ...] = ()


class Browsing:
    """The catalog as people look at it."""

    def __init__(self, catalog: EnvironmentCatalog, store: Store) -> None:
        self._catalog, self._store = catalog, store
        self._tiles = Tiles(catalog)

    async def tiles(self, person: Person, *, curates: bool = False) -> list[Shown]:
        """What ``person`` may use, in their order; with ``curates``, at the end what is not
        offered, with the reasons."""
        await self._catalog.load()
        habits = await _or(habits_of(self._store, person.name), NO_HABITS)
        best = await _or(self._store.measurements.best(), {})
        shown = [
            self._shown(one, habits.liked, habits.used.get(one.name), best.get(one.name, {}))
            for one in ordered(self._catalog.visible_to(person), habits)
        ]
        if curates:
            for name, offer in self._catalog.offers.items():
                one = self._catalog.environments[name]
                if offer.environment is None and self._catalog.sees(person, one):
                    shown.append(Shown(tile=self._tiles.of(one), reason=offer.reason))
        return shown

    async def whole(self, name: str, person: Person, *, curates: bool = False) -> Whole:
        """One environment, when ``person`` may use it, or curates or owns it. Raises NotFound."""
        await self._catalog.load()
        offer = self._catalog.offers.get(name)
        one = self._catalog.environments.get(name)
        reason = ""
        if one is not None and offer is not None and self._catalog.sees(person, one):
            if curates or one.owner == person.name:
                reason = offer.reason
        if one is None or not reason:
            one = self._catalog.get(name, person)
        habits = await _or(habits_of(self._store, person.name), NO_HABITS)
        rows = measured(await _or(self._store.measurements.of(name), []))
        best: dict[str, tuple[float, bool]] = {}
        for row in sorted(rows, key=lambda row: (not row.simulated, row.best)):
            best[row.gpu_type] = (row.best, row.simulated)
        shown = self._shown(one, habits.liked, habits.used.get(name), best)
        if reason:
            shown = shown.model_copy(update={"reason": reason})
        verdicts = self._catalog.offering.tested(one)
        tests = await _or(self._store.tests.newest(one.fingerprint), {})
        history: list[EnvironmentVersion] = []
        if curates:
            nothing: tuple[list[EnvironmentVersion], int] = ([], 0)
            history, _ = await _or(self._store.versions.of(name, 0, _VERSIONS), nothing)
        facts = _facts(verdicts.values())
        mark = self._catalog.offering.mark_of(one)
        return Whole(
            shown=shown,
            environment=one,
            versions=tuple(version_rows(versions_of([v for v in verdicts.values() if v.passed]))),
            distribution=facts.distribution,
            architecture=facts.architecture,
            packages=tuple(sorted(facts.packages, key=str.casefold)),
            added=facts.added,
            size=mark[0] if mark else None,
            kernels=_kernels(tests),
            tests=tests,
            measured=rows,
            history=tuple(history),
        )

    def _shown(
        self,
        environment: Environment,
        liked: Iterable[str],
        last_used: float | None,
        best: dict[str, tuple[float, bool]],
    ) -> Shown:
        tested = self._catalog.offering.tested(environment)
        refusals = refusals_of(environment)
        types = dict.fromkeys([*environment.gpu_types, *refusals, *tested, *best])
        types.pop("", None)
        gpus = []
        for name in types:
            verdict, figure = tested.get(name), best.get(name)
            gpus.append(
                GpuOffer(
                    type=name,
                    offered=name not in refusals and environment.max_gpus != 0,
                    reason=refusals.get(name, ""),
                    tested_at=verdict.at if verdict else None,
                    images_per_second=figure[0] if figure else None,
                    simulated=bool(figure and figure[1]),
                )
            )
        return Shown(
            tile=self._tiles.of(environment),
            favourite=environment.name in liked,
            last_used=last_used,
            gpus=tuple(gpus),
            any_gpu=not environment.gpu_types and environment.max_gpus != 0,
        )


def users_now(sessions: Iterable[SessionRecord], environment: str) -> list[str]:
    """Whose living sessions are in it, each name once, sorted."""
    return sorted({one.user for one in sessions if one.environment == environment})


def _facts(verdicts: Iterable[Verdict]) -> Facts:
    """What the test without GPUs read, else what any that passed did."""
    for verdict in sorted(verdicts, key=lambda v: (not v.passed, v.gpu_type != "", -v.at)):
        with contextlib.suppress(ValidationError):  # as an older portal wrote it
            return Facts.model_validate(verdict.facts)
    return Facts()


def _kernels(tests: dict[str, EnvironmentTest]) -> tuple[KernelResult, ...]:
    """How the kernels did in the newest test that came to its end."""
    over = [t for t in tests.values() if t.state in (WorkState.PASSED, WorkState.FAILED)]
    for test in sorted(over, key=lambda test: test.id, reverse=True):
        if test.result and test.result.get("kernels"):
            return tuple(KernelResult.model_validate(one) for one in test.result["kernels"])
    return ()


async def _or(asked: Awaitable[T], otherwise: T) -> T:
    try:
        return await asked
    except StoreUnavailable:
        return otherwise
