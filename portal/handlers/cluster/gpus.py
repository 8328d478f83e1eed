"""``api/v1/gpus``: every GPU, and what it is doing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from portal.models.cluster.dashboard import GpuItem
from portal.models.person import Person

from ..base.csv import MEDIA, CsvEndpoint
from ..base.endpoint import Endpoint, Operation, Query
from ..base.listing import Text, Words, among, found, matching, paged
from ..base.paging import Page, PageQuery
from . import sort_cache

if TYPE_CHECKING:
    from portal.dashboard import ClusterView


class GpuFilter(Query):
    """Filters and order of the GPUs."""

    partition: Words = None
    node: Words = None
    type: Words = None
    state: Words = None
    user: Words = None
    job_id: Words = None
    mine: bool | None = None
    text: Text = None
    sort: Literal[
        "node", "-node", "type", "-type", "state", "-state", "user", "-user", "job_id", "-job_id",
        "environment", "-environment", "utilization", "-utilization",
        "memory_used", "-memory_used",
    ] = "node"  # fmt: skip


class GpuQuery(PageQuery, GpuFilter):
    """Filters, order and page of the GPUs."""


class GpusEndpoint(Endpoint):
    """All GPUs."""

    path = "gpus"

    @Operation("List GPUs.", query=GpuQuery)
    async def on_get(self) -> Page[GpuItem]:
        """Hide user and environment of what belongs to others, unless you may see whose it is."""
        return await paged(selected, self.view, self.person, query=self.query)


class GpusCsv(CsvEndpoint):
    """All GPUs, as a file."""

    path = "gpus.csv"
    columns = tuple(GpuItem.model_fields)

    @Operation("The GPUs as CSV.", query=GpuFilter, media=MEDIA)
    async def rows(self) -> Sequence[GpuItem]:
        return await asyncio.to_thread(selected, self.view, self.person, self.query)


ENDPOINTS = (GpusEndpoint, GpusCsv)


def selected(view: ClusterView, person: Person, query: GpuFilter) -> Sequence[GpuItem]:
    """Return the GPUs that ``query`` asks for, in its order, as this person may see them."""
    return chosen(view, sort_cache.gpus(view, person, query.sort), query)


def chosen(view: ClusterView, items: Sequence[GpuItem], query: GpuFilter) -> Sequence[GpuItem]:
    """Return the ``items`` that pass the filters."""
    if query.partition:
        partitions = among(query.partition)
        names = {
            node.name
            for node in view.nodes.values()
            if partitions & {name.casefold() for name in node.partitions}
        }
        items = [item for item in items if item.node in names]
    items = matching(items, query, ("node", "type", "state", "user", "job_id"))
    if query.mine is not None:
        items = [item for item in items if item.mine is query.mine]
    if query.text:
        has = found(query.text)
        items = [
            item
            for item in items
            if has(item.node, item.type, item.state, item.job_id, item.user, item.environment)
        ]
    return items
