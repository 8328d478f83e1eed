"""Pages of runs: the user's runs, a new run, a run with its points, and a comparison."""

from __future__ import annotations

import contextlib
from typing import Any
from urllib.parse import quote, urlencode

from portal.errors import NotFound, StoreUnavailable
from portal.handlers.pages.pages import Page
from portal.models.session.session import SessionRecord
from portal.sessions.links import server_url
from portal.work.run.opener import has_runs
from portal.work.run.parts import RunParts

from .endpoints.runs import RUN_ID

# Of JupyterLab's address: it opens the dialog of a new run (kernels/labextension/src/runs.ts).
_DIALOG = "lab?portal-run=new"
_MOST = 100  # sessions


class RunsPage(Page):
    """Runs of a person, newest first."""

    template = "runs.html"

    async def variables(self, *segments: str) -> dict[str, Any]:
        """Answer whether the site offers runs, and the environments and spaces to filter by; none
        while the database is down: the page says so itself."""
        environments, spaces = list[str](), list[str]()
        with contextlib.suppress(StoreUnavailable):
            environments, spaces = await self.parts.store.runs.used(self.person.name)
        offered = self.parts_for(RunParts).limits.per_user > 0
        return {"runs_offered": offered, "environments": environments, "spaces": spaces}


class NewRunPage(Page):
    """Redirect to JupyterLab with the dialog of a new run: in a session of the person that runs, or
    in the default one once it is launched. The files are there, and the portal cannot read them."""

    async def get(self, *segments: str) -> None:
        base = self.parts.hub_host + self.parts.base
        running = await self._running()
        if running:
            newest = max(running, key=lambda record: record.submitted_at)
            self.redirect(f"{server_url(newest, base)}{_DIALOG}")
            return
        user = quote(self.person.name, safe="@~")  # as jupyterhub.user.User.escaped_name
        path = self.parts.base
        query = urlencode({"next": f"{path}user/{user}/{_DIALOG}"})
        self.redirect(f"{self.settings['pages'].hub}spawn?{query}")

    async def _running(self) -> list[SessionRecord]:
        """Return the person's running sessions that may start runs, without those of spaces; none
        while the database is down: the Hub knows whether the default one runs."""
        records: list[SessionRecord] = []
        with contextlib.suppress(StoreUnavailable):
            find = self.parts.store.sessions.find
            records, _ = await find(user=self.person.name, ended=False, limit=_MOST)
        return [record for record in records if has_runs(record) and not record.space]


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
                run = await store.runs.get(user, segments[0])
            else:
                run = await store.run_shares.get(user, owner, segments[0])
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
