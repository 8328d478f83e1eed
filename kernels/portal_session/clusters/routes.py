"""Routes to clusters: of the session's broker for kernels, and of its server for the browser."""

from __future__ import annotations

import re
from typing import Any

from ..chosen_id import ID
from ..job_kernels.broker_handler import BrokerHandler
from ..programs.late import LateProxy
from .clusters import Clusters

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


def broker_routes(clusters: Clusters) -> list[Any]:
    """Return the routes of the broker."""
    arguments = {"clusters": clusters}
    return [
        ("/clusters", NewClusterHandler, arguments),
        (f"/clusters/({ID})", ClusterHandler, arguments),
    ]


def add_dashboards(clusters: Clusters, web_app: Any, base: str) -> None:
    """Route ``portal/clusters/ID/`` below ``base`` to the scheduler's pages."""

    def given(id: str) -> dict[str, Any]:
        return {"clusters": clusters, "id": id}

    route = f"{re.escape(base)}portal/clusters/({ID})/(.*)"
    LateProxy(web_app, _PROXY, given, _TITLE).add_route(route)
