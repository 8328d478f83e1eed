"""Routes to clusters: of the session's broker for kernels, and of its server for the browser."""

from __future__ import annotations

import re
from typing import Any

from ..chosen_id import ID
from ..job_kernels.broker_handler import BrokerHandler
from ..programs.late import LateProxy
from .clusters import Clusters
from .kept.kept import KeptClusters

_PROXY = f"{__package__}.proxy:ClusterProxy"
_TITLE = "The dashboard"


class _Handler(BrokerHandler):
    """Handler of a kernel's request."""

    def initialize(self, clusters: Clusters) -> None:
        self.clusters = clusters


class NewClusterHandler(_Handler):
    """``POST /clusters``: keys of a new cluster."""

    async def post(self) -> None:
        await self.answer_body(self.clusters.make)


class ClusterHandler(_Handler):
    """``/clusters/ID``: the number of its workers, its state, its end."""

    async def get(self, id: str) -> None:
        await self.answer(self.clusters.state(id))

    async def put(self, id: str) -> None:
        await self.answer_body(lambda body: self.clusters.have(id, body))

    async def delete(self, id: str) -> None:
        await self.answer(self.clusters.end(id))


class _KeptHandler(BrokerHandler):
    """Handler of a kernel's request for a kept cluster."""

    def initialize(self, kept: KeptClusters) -> None:
        self.kept = kept


class NewKeptHandler(_KeptHandler):
    """``/kept-clusters``: the user's, and a new one."""

    async def get(self) -> None:
        await self.answer(self.kept.items())

    async def post(self) -> None:
        await self.answer_body(self.kept.make)


class KeptHandler(_KeptHandler):
    """``/kept-clusters/ID``: its state, what a client of it needs, the number of its workers, its
    end."""

    async def get(self, id: str) -> None:
        await self.answer(self.kept.state(id))

    async def post(self, id: str) -> None:
        await self.answer(self.kept.connect(id))

    async def put(self, id: str) -> None:
        await self.answer_body(lambda body: self.kept.have(id, body))

    async def delete(self, id: str) -> None:
        await self.answer(self.kept.end(id))


def broker_routes(clusters: Clusters, kept: KeptClusters) -> list[Any]:
    """Return the routes of the broker."""
    arguments, of_kept = {"clusters": clusters}, {"kept": kept}
    return [
        ("/clusters", NewClusterHandler, arguments),
        (f"/clusters/({ID})", ClusterHandler, arguments),
        ("/kept-clusters", NewKeptHandler, of_kept),
        (f"/kept-clusters/({ID})", KeptHandler, of_kept),
    ]


def add_dashboards(clusters: Clusters, kept: KeptClusters, web_app: Any, base: str) -> None:
    """Route ``portal/clusters/ID/`` below ``base`` to the scheduler's pages."""

    def given(id: str) -> dict[str, Any]:
        return {"clusters": clusters, "kept": kept, "id": id}

    route = f"{re.escape(base)}portal/clusters/({ID})/(.*)"
    LateProxy(web_app, _PROXY, given, _TITLE).add_route(route)
