"""The catalog's pages for everyone: tiles, one environment, requests, one's own.

What they show at once is made here from what the service has in memory and in its database; their
scripts filter it, and ask the API for the rest.
"""

from __future__ import annotations

import asyncio
from typing import Any

from portal.catalog.browsing import Whole, users_now
from portal.catalog.markdown import markdown_html
from portal.catalog.tile import MANY, common_tags, day
from portal.errors import Unavailable
from portal.models import scope
from portal.models.image_job import WorkState

from .environments import as_seen_by_catalog
from .pages import Page

_NAME = r"[a-z0-9][a-z0-9._-]{0,62}"
# Pages of these names stand beside the environments': an environment of such a name has the longer
# address only.
_TAKEN = ("environments", "own", "request")
_OUTCOMES = {
    WorkState.WAITING: "waits for a node",
    WorkState.RUNNING: "is under way",
    WorkState.PASSED: "passed",
    WorkState.FAILED: "failed",
    WorkState.CANCELLED: "was cancelled",
    WorkState.UNKNOWN: "could not be run",
}


class _CatalogPage(Page):
    """What all of them know."""

    @property
    def curates(self) -> bool:
        return self.person.may(scope.ENVIRONMENTS_MANAGE)

    def show(self, template: str, **variables: Any) -> None:
        super().show(template, **{"address_of": self._address_of, "day": day, **variables})

    def _address_of(self, name: str) -> str:
        middle = "environments/" if name in _TAKEN else ""
        return f"{self.parts.prefix}catalog/{middle}{name}"


class CatalogPage(_CatalogPage):
    """All that one may use, as tiles."""

    template = "catalog.html"

    async def variables(self, *words: str) -> dict[str, Any]:
        person = as_seen_by_catalog(self.person)
        shown = await self.parts.browsing.tiles(person, curates=self.curates)
        if not self.parts.catalog.loaded:
            raise Unavailable("The directory of environments cannot be read now.")
        offered = [one for one in shown if not one.reason]
        return {
            "offered": offered,
            "closed": [one for one in shown if one.reason],
            "tags": common_tags([one.tile for one in offered], few=3),
            "many": len(offered) > MANY,
            "curates": self.curates,
            "may_register": self.parts.catalog.rules.may_register(person),
            "database": self.parts.store.error,
        }


class EnvironmentPage(_CatalogPage):
    """One environment, with what is inside."""

    template = "environment.html"

    async def variables(self, *words: str) -> dict[str, Any]:
        person = as_seen_by_catalog(self.person)
        whole = await self.parts.browsing.whole(words[0], person, curates=self.curates)
        view = self.parts.dashboard.view
        sessions = list(view.sessions.values()) if view is not None else []
        users = users_now(sessions, words[0])
        here = [one for one in sessions if one.user == person.name and not one.server]
        one = whole.environment
        return {
            "whole": whole,
            "one": one,
            "description": await asyncio.to_thread(markdown_html, one.description),
            "users": len(users) if view is not None else None,
            "names": users if self.person.may(scope.SESSIONS_READ) else (),
            "tests": _tests(whole),
            "has_session": bool(here),
            "curates": self.curates,
            # Paths on the hosts are for those who look after them.
            "paths": self.curates or (one.private and one.owner == person.name),
            "measured": [row.model_dump(mode="json") for row in whole.measured],
        }


class EnvironmentRequestPage(_CatalogPage):
    """What one misses in the catalog."""

    template = "environment_request.html"

    async def variables(self, *words: str) -> dict[str, Any]:
        return {"curates": self.curates}


class OwnEnvironmentsPage(_CatalogPage):
    """What one registers for oneself."""

    template = "own_environments.html"

    async def variables(self, *words: str) -> dict[str, Any]:
        rules = self.parts.catalog.rules
        return {
            "may_register": rules.may_register(as_seen_by_catalog(self.person)),
            "policy": rules.own_environments,
            "groups": rules.own_groups,
        }


def _tests(whole: Whole) -> list[dict[str, Any]]:
    """A row for each GPU type that it is for, was tested or measured on: first without GPUs."""
    rows = []
    offers = {one.type: one for one in whole.shown.gpus}
    for name in dict.fromkeys(["", *offers, *whole.tests]):
        test, offer = whole.tests.get(name), offers.get(name)
        at = (test.ended_at or test.asked_at) if test else None
        rows.append(
            {
                "type": name,
                "outcome": _OUTCOMES[test.state] if test else "not tested",
                "state": test.state if test else "",
                "at": at,
                "id": test.id if test else None,
                "simulated": bool(test and test.result and test.result.get("simulated")),
                "reason": (offer.reason if offer else "") or (test.message if test else ""),
                "best": offer.images_per_second if offer else None,
                "best_simulated": offer.simulated if offer else False,
            }
        )
    return rows


def catalog_page_routes(prefix: str) -> list[Any]:
    """The rows for tornado."""
    return [
        (rf"{prefix}catalog/?", CatalogPage),
        (rf"{prefix}catalog/request/?", EnvironmentRequestPage),
        (rf"{prefix}catalog/own/?", OwnEnvironmentsPage),
        (rf"{prefix}catalog/environments/({_NAME})/?", EnvironmentPage),
        (rf"{prefix}catalog/({_NAME})/?", EnvironmentPage),
    ]
