"""Page of benchmarks."""

from __future__ import annotations

from typing import Any

from portal.handlers.catalog.environments import as_seen_by_catalog
from portal.handlers.pages.pages import Page

from .results import SCRIPTS
from .specifications import known_specifications


class BenchmarksPage(Page):
    """Results of benchmarks, and GPUs by their data sheets."""

    template = "benchmarks.html"

    async def variables(self, *segments: str) -> dict[str, Any]:
        """Answer what the filters offer, and the data sheets."""
        await self.parts.catalog.load()
        seen = self.parts.catalog.visible_to(as_seen_by_catalog(self.person))
        return {
            "benchmarks": SCRIPTS,
            "environments": sorted(environment.name for environment in seen),
            "gpus": [entry.model_dump() for entry in known_specifications()],
        }


BENCHMARK_PAGES = ((r"benchmarks/?", BenchmarksPage),)
