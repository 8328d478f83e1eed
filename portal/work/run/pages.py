"""Pages of runs: the user's runs, a new run, a run with its points, and a comparison."""

from __future__ import annotations

import contextlib
from typing import Any
from urllib.parse import urlencode

from portal.errors import NotFound, StoreUnavailable
from portal.handlers.pages.pages import Page
from portal.work.run.parts import RunParts
from portal.work.run.seen import viewer_of
from portal.work.run.tables.runs import RunTable
from portal.work.run.tables.shares import RunShareTable

from .endpoints.runs import RUN_ID


class RunsPage(Page):
    """Runs of a person, newest first."""

    template = "runs.html"

    async def variables(self, *segments: str) -> dict[str, Any]:
        """Answer whether the site offers runs, and the environments and spaces to filter by; none
        while the database is down: the page says so itself."""
        environments, spaces = list[str](), list[str]()
        with contextlib.suppress(StoreUnavailable):
            environments, spaces = await self.parts.store.table(RunTable).used(self.person.name)
        offered = self.parts_for(RunParts).limits.per_user > 0
        return {"runs_offered": offered, "environments": environments, "spaces": spaces}


class NewRunPage(Page):
    """Form of a new run. A running session of the person reads the files; without one, the page
    leads to the launch of one and is shown again then."""

    template = "run_new.html"

    async def variables(self, *segments: str) -> dict[str, Any]:
        """Answer the address of that launch."""
        query = urlencode({"next": f"{self.parts.prefix}runs/new"})
        return {"launch": f"{self.settings['pages'].hub}spawn?{query}"}


class RunPage(Page):
    """A run, with its points."""

    template = "run.html"

    async def variables(self, *segments: str) -> dict[str, Any]:
        """Answer 404 if this person has no such run. While the database is down, the page says so
        itself."""
        user, owner = self.person.name, self.get_query_argument("owner", "")
        with contextlib.suppress(StoreUnavailable):
            store = self.parts.store
            if owner in ("", user):
                run = await store.table(RunTable).get(user, segments[0])
            else:
                viewer = await viewer_of(self.parts.memberships, self.person)
                run = await store.table(RunShareTable).get(viewer, owner, segments[0])
            if run is None:
                raise NotFound("You have no such run.")
        return {"run_id": segments[0], "run_owner": "" if owner == user else owner}


class ComparisonPage(Page):
    """Comparison of runs, whose ids are in the address."""

    template = "runs_compare.html"


RUN_PAGES = (
    (r"runs/?", RunsPage),
    (r"runs/compare", ComparisonPage),
    (r"runs/new", NewRunPage),
    (rf"runs/({RUN_ID.replace('(', '(?:')})", RunPage),
)
