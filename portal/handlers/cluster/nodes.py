"""``api/v1/nodes``: the cluster's nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from portal.errors import NotFound
from portal.models.cluster.dashboard import NodeItem
from portal.slurm.control.control import NODE_NAME

from ..base.csv import MEDIA, CsvEndpoint
from ..base.endpoint import Endpoint, Operation, Query
from ..base.listing import Text, Words, among, found, natural, ordered, paged
from ..base.paging import Page, PageQuery

if TYPE_CHECKING:
    from portal.dashboard import ClusterView


class NodeFilter(Query):
    """Filters and order of the nodes."""

    partition: Words = None
    type: Words = None  # of a GPU
    state: Words = None  # one of Slurm's words, such as "drain": a node may have several
    usable: bool | None = None
    text: Text = None
    sort: Literal[
        "name", "-name", "state", "-state", "gpus", "-gpus", "gpus_allocated", "-gpus_allocated",
        "cpus_allocated", "-cpus_allocated", "memory_allocated", "-memory_allocated",
    ] = "name"  # fmt: skip


class NodeQuery(PageQuery, NodeFilter):
    """Filters, order and page of the nodes."""


class NodesEndpoint(Endpoint):
    """All nodes."""

    path = "nodes"

    @Operation("List nodes.", query=NodeQuery)
    async def on_get(self) -> Page[NodeItem]:
        return await paged(selected, self.view, query=self.query)


class NodesCsv(CsvEndpoint):
    """All nodes, as a file."""

    path = "nodes.csv"
    columns = tuple(NodeItem.model_fields)

    @Operation("The nodes as CSV.", query=NodeFilter, media=MEDIA)
    async def rows(self) -> Sequence[NodeItem]:
        return await asyncio.to_thread(selected, self.view, self.query)


class NodeEndpoint(Endpoint):
    """Node by its name."""

    path = "nodes/{node}"
    parameters = {"node": NODE_NAME}

    @Operation("Get a node.")
    async def on_get(self, node: str) -> NodeItem:
        item = self.view.nodes.get(node)
        if item is None:
            raise NotFound(f"There is no node '{node}'.")
        return item


ENDPOINTS = (NodesEndpoint, NodesCsv, NodeEndpoint)


def selected(view: ClusterView, query: NodeFilter) -> list[NodeItem]:
    """Return the nodes that ``query`` asks for, in its order."""
    items = sorted(view.nodes.values(), key=lambda item: natural(item.name))
    if query.partition:
        partitions = among(query.partition)
        items = [item for item in items if partitions & {p.casefold() for p in item.partitions}]
    if query.type:
        types = among(query.type)
        items = [item for item in items if types & {t.casefold() for t in item.gpu_types}]
    if query.state:
        states = among(query.state)
        items = [item for item in items if states & set(item.state.casefold().split("+"))]
    if query.usable is not None:
        items = [item for item in items if item.usable is query.usable]
    if query.text:
        has = found(query.text)
        items = [item for item in items if has(item.name, item.words, item.reason)]
    return items if query.sort == "name" else ordered(items, query.sort)
