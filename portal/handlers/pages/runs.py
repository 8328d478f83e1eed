"""The pages of runs: all of one's own, and a single one with its points."""

from __future__ import annotations

import contextlib
from typing import Any

from portal.errors import NotFound, StoreUnavailable

from ..runs.runs import RUN_ID
from .pages import Page


class RunsPage(Page):
    """Runs of a person, newest first."""

    template = "runs.html"


class RunPage(Page):
    """A run, with its points."""

    template = "run.html"

    async def variables(self, *segments: str) -> dict[str, Any]:
        """Answer 404 if this person has no such run. While the database is down, the page says so
        itself."""
        with contextlib.suppress(StoreUnavailable):
            user, store = self.person.name, self.parts.store
            run = await store.runs.get(user, segments[0])
            if run is None and await store.run_shares.get(user, segments[0]) is None:
                raise NotFound("You have no such run.")
        return {"run_id": segments[0]}


RUN_PAGES = ((r"runs/?", RunsPage), (rf"runs/({RUN_ID.replace('(', '(?:')})", RunPage))
