"""Catalog pages for everyone: tiles, one environment, requests, one's own environments.

What they show at once is what the API says, too; their scripts search it, and ask the API for the
rest.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from portal.catalog.offers.gpu_offers import GpuOffer, any_gpu, gpu_offers
from portal.catalog.offers.markdown import markdown_html
from portal.catalog.offers.preferences import Preferences, ordered
from portal.catalog.offers.tile import KINDS, Tile, common_tags, day, icon_of, version_rows
from portal.catalog.offers.upcoming import Upcoming, upcoming
from portal.errors import StoreUnavailable, Unavailable
from portal.models import Frozen, scope
from portal.models.catalog.catalog import Measured
from portal.models.catalog.environment_item import EnvironmentDetail
from portal.models.catalog.image_job import KernelResult, WorkState
from portal.models.person import Person
from portal.models.words import duration

from ..catalog.items import CatalogView, as_seen_by_catalog
from .pages import Page

if TYPE_CHECKING:
    from portal.dashboard import ClusterView

_NAME = r"[a-z0-9][a-z0-9._-]{0,62}"
# Names of pages beside the environments': an environment of such a name has the longer address
# only.
_TAKEN = ("environments", "own", "request")
_OUTCOMES = {
    WorkState.WAITING: "waiting for a node",
    WorkState.RUNNING: "running",
    WorkState.PASSED: "passed",
    WorkState.FAILED: "failed",
    WorkState.CANCELLED: "cancelled",
    WorkState.UNKNOWN: "could not run",
}


class _CatalogPage(Page):
    """Base class of the catalog pages."""

    @property
    def curates(self) -> bool:
        return self.person.may(scope.ENVIRONMENTS_MANAGE)

    def show(self, template: str, **variables: Any) -> None:
        super().show(
            template,
            **{"address_of": self._address_of, "day": day, "duration": duration, **variables},
        )

    def _address_of(self, name: str) -> str:
        middle = "environments/" if name in _TAKEN else ""
        return f"{self.parts.prefix}catalog/{middle}{name}"


class CatalogTile(Frozen):
    """Environment on the page of the catalog. ``reason``: why it is not offered."""

    tile: Tile
    favourite: bool = False
    last_used: float | None = None
    gpus: tuple[GpuOffer, ...] = ()
    any_gpu: bool = False
    reason: str = ""


class CatalogPage(_CatalogPage):
    """All environments that one may use, as tiles."""

    template = "catalog.html"

    async def variables(self, *segments: str) -> dict[str, Any]:
        parts, catalog = self.parts, self.parts.catalog
        view = CatalogView(parts, self.person)
        await catalog.load()
        if not catalog.loaded:
            raise Unavailable("The directory of environments cannot be read now.")
        await asyncio.gather(view.ask(), parts.tiles.refresh())
        best: Mapping[str, Mapping[str, tuple[float, bool]]] = {}
        with contextlib.suppress(StoreUnavailable):
            best = await parts.store.measurements.best()
        coming: list[Upcoming] = []
        with contextlib.suppress(StoreUnavailable):
            coming = await upcoming(catalog, parts.store, view.person, curates=self.curates)
        preferences = Preferences(view.favourites, view.last_used)
        offered = [
            CatalogTile(
                tile=parts.tiles.tile_for(entry),
                favourite=entry.name in preferences.liked,
                last_used=preferences.used.get(entry.name),
                gpus=gpu_offers(entry, catalog.offering.tested(entry), best.get(entry.name, {})),
                any_gpu=any_gpu(entry),
            )
            for entry in ordered(catalog.visible_to(view.person), preferences)
        ]
        return {
            "offered": offered,
            "closed": self._closed(view.person),
            "upcoming": coming,
            "tags": common_tags([entry.tile for entry in offered], few=2),
            "curates": self.curates,
            "may_register": catalog.rules.may_register(view.person),
            "database": parts.store.error,
        }

    def _closed(self, person: Person) -> list[CatalogTile]:
        """Return tiles of what is not offered, for those who curate, or its owner."""
        catalog = self.parts.catalog
        return [
            CatalogTile(tile=self.parts.tiles.tile_for(environment), reason=offer.reason)
            for name, offer in catalog.offers.items()
            if offer.environment is None
            and catalog.sees(person, environment := catalog.environments[name])
            and (self.curates or environment.private)
        ]


class EnvironmentPage(_CatalogPage):
    """Environment, with what is inside."""

    template = "environment.html"

    async def variables(self, *segments: str) -> dict[str, Any]:
        name, catalog = segments[0], self.parts.catalog
        view = CatalogView(self.parts, self.person)
        environment = await view.detail_by_name(name)
        await self.parts.tiles.refresh()
        offer = catalog.offers.get(name)
        known = (offer and offer.environment) or catalog.environments.get(name)
        gpus: tuple[GpuOffer, ...] = ()
        if known is not None:
            best = {row.gpu_type: (row.best, row.simulated) for row in _slowest_first(environment)}
            gpus = gpu_offers(known, catalog.offering.tested(known), best)
        own = [
            session
            for session in (self._view.sessions.values() if self._view else ())
            if session.user == self.person.name and not session.server
        ]
        users = sorted(set(environment.users)) if self.person.may(scope.SESSIONS_READ) else []
        return {
            "environment": environment,
            "tile": self.parts.tiles.tile_for(known) if known else _draft_tile(environment),
            "reason": "" if environment.offered else environment.reason,
            "description": await asyncio.to_thread(markdown_html, environment.description),
            "versions": version_rows(environment.versions),
            "tests": _tests(environment, gpus),
            "any_gpu": known is not None and any_gpu(known),
            "kernels": _kernels(environment),
            "users": users,
            "known_sessions": self._view is not None,
            "has_session": bool(own),
            "curates": self.curates,
            "measured": [row.model_dump(mode="json") for row in environment.measurements],
        }

    @property
    def _view(self) -> ClusterView | None:
        return self.parts.dashboard.view


class EnvironmentRequestPage(_CatalogPage):
    """Request for an environment that the catalog lacks."""

    template = "environment_request.html"

    async def variables(self, *segments: str) -> dict[str, Any]:
        return {"curates": self.curates}


class UserEnvironmentsPage(_CatalogPage):
    """Environments that one registers for oneself."""

    template = "own_environments.html"

    async def variables(self, *segments: str) -> dict[str, Any]:
        person = as_seen_by_catalog(self.person)
        refusal = self.parts.user_environments.refusal(person)
        return {
            "may_register": not refusal,
            "refusal": refusal,
            "has_own": bool(await self.parts.user_environments.of_user(person)),
        }


def _slowest_first(environment: EnvironmentDetail) -> list[Measured]:
    """Sort simulated before real measurements, slow before fast: the last of a type counts."""
    return sorted(environment.measurements, key=lambda row: (not row.simulated, row.best))


def _draft_tile(environment: EnvironmentDetail) -> Tile:
    """Return the tile of a draft, which is in no file yet."""
    return Tile(
        name=environment.name,
        title=environment.title,
        kind=KINDS[environment.kind],
        icon=icon_of(environment.icon, environment.kind),
    )


def _kernels(environment: EnvironmentDetail) -> tuple[KernelResult, ...]:
    """Return the kernels' results of the newest test that came to its end."""
    for test in sorted(environment.tests, key=lambda test: -test.at):
        if test.kernels:
            return test.kernels
    return ()


def _tests(environment: EnvironmentDetail, gpus: Sequence[GpuOffer]) -> list[dict[str, Any]]:
    """Return a row per GPU type that it is for, was tested or measured on; first without GPUs."""
    tests, offers = (
        {test.gpu_type: test for test in environment.tests},
        {gpu.type: gpu for gpu in gpus},
    )
    rows = []
    for name in dict.fromkeys(["", *offers, *tests]):
        test, offer = tests.get(name), offers.get(name)
        rows.append(
            {
                "type": name,
                "outcome": _OUTCOMES[test.state] if test else "not tested",
                "state": test.state.value if test else "",
                "at": test.at if test else None,
                "simulated": bool(test and test.simulated),
                "reason": (offer.reason if offer else "") or (test.message if test else ""),
                "best": offer.images_per_second if offer else None,
                "best_simulated": bool(offer and offer.simulated),
            }
        )
    return rows


# Addresses below the service's prefix, as tornado reads them, and their pages.
CATALOG_PAGES = (
    (r"catalog/?", CatalogPage),
    (r"catalog/request/?", EnvironmentRequestPage),
    (r"catalog/own/?", UserEnvironmentsPage),
    (rf"catalog/environments/({_NAME})/?", EnvironmentPage),
    (rf"catalog/({_NAME})/?", EnvironmentPage),
)
