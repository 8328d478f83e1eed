"""``api/v1/projects/{project}/money`` and ``…/usage``: what it has left, and who used it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from portal.handlers.base.csv import MEDIA, CsvEndpoint
from portal.handlers.base.endpoint import Operation
from portal.models.session.usage import UsageRow

from ..access import ProjectAction
from .funds import ProjectMoney
from .usage import ProjectUsage, ProjectUsageQuery, rows_of, usage_by_member


class Money(ProjectAction):
    """GPU-hours that are left."""

    path = "projects/{project}/money"

    @Operation("GPU-hours that a project has left, in the portal and in Slurm.")
    async def on_get(self, project: str) -> ProjectMoney:
        """Return both limits with their ends at the pace of the last seven days, the project's
        last day, and what ends first. What Slurm does not tell is said in ``problem``."""
        return await self.project_parts.funds.of_project(self.stored)


class Usage(ProjectAction):
    """Usage by member."""

    path = "projects/{project}/usage"

    @Operation("GPU-hours of a project by member.", query=ProjectUsageQuery)
    async def on_get(self, project: str) -> ProjectUsage:
        """Return the days or weeks of UTC to the present one."""
        now = time.time()
        rows = await rows_of(self.parts.store, self.stored.name, self.query, now)
        return await asyncio.to_thread(usage_by_member, rows, self.query, now)


class UsageCsv(ProjectAction, CsvEndpoint):
    """Usage by member, as a file."""

    path = "projects/{project}/usage.csv"
    columns = (
        *("period", "user", "jobs"),
        *("held_hours", "used_hours", "idle_hours", "measured_share"),
    )

    @Operation("GPU-hours of a project by member, as CSV.", query=ProjectUsageQuery, media=MEDIA)
    async def rows(self) -> Sequence[UsageRow]:
        return await rows_of(self.parts.store, self.stored.name, self.query, time.time())

    async def on_get(self, project: str) -> None:  # type: ignore[override]
        """Return a header and a line for each member and each day or week of UTC in which they
        held GPUs."""
        await self.send(f"{project}-usage.csv")

    def value(self, row: Any, column: str) -> Any:
        """Return the value of a row's cell."""
        return row.key if column == "user" else super().value(row, column)


ENDPOINTS = (UsageCsv, Usage, Money)
