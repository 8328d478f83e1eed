"""Home: the parts that features have for the user, each loaded by itself."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from portal.handlers.pages.pages import Page
from portal.models.words import clock

from .showing import shown_parts
from .visits import last_visit

_PATIENCE = 0.15  # seconds for which the page waits for a part
_UPDATE = 3.0  # … and its script for those that were late
_LATE = "This part does not answer now. It is tried again every few seconds."


class HomePage(Page):
    """Parts by place; with ``update`` in the address these alone, for the page's script."""

    template = "home.html"

    @property
    def updates(self) -> bool:
        return bool(self.get_query_argument("update", ""))

    def template_of(self, *segments: str | None) -> str:
        return "home_parts.html" if self.updates else self.template

    async def variables(self, *segments: str) -> dict[str, Any]:
        visit: asyncio.Task[float] | None = None

        async def since() -> float:
            nonlocal visit
            if visit is None:
                visit = asyncio.ensure_future(last_visit(self.parts.store, self.person.name))
                visit.add_done_callback(lambda task: task.cancelled() or task.exception())
            return await asyncio.shield(visit)  # each part has its own patience

        parts = [
            part
            for made in self.parts.of_features.values()
            if (parts_of := getattr(made, "home_parts", None))
            for part in parts_of(self.person, since)
        ]
        patience, late = (_UPDATE, _LATE) if self.updates else (_PATIENCE, "")
        shown = await shown_parts(parts, self.parts.log, patience=patience, late=late)
        return {"parts": shown, "clock": lambda at: clock(at, time.time())}


HOME_PAGES = ((r"home/?", HomePage),)
