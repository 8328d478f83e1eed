"""Proxy to the pages of a cluster's scheduler, behind the session's login."""

from __future__ import annotations

from pathlib import Path

from ..programs.page import write_page
from ..programs.proxy import SessionProxy
from ..programs.target import Target
from .clusters import Clusters
from .kept.kept import KeptClusters

_GONE = "This cluster has been closed, or its notebook's kernel has ended. (Ray's has no pages.)"


class ClusterProxy(SessionProxy):
    """``portal/clusters/ID/…``. No request counts as activity: a dashboard in a forgotten tab polls
    for ever."""

    title = "The dashboard"
    is_activity = False

    def initialize(self, clusters: Clusters, kept: KeptClusters, id: str) -> None:
        self._clusters, self._kept, self._id = clusters, kept, id

    async def http_get(self, path: str) -> None:
        await self._kept.prepare(self._id)
        await super().http_get(path)

    post = put = delete = patch = head = options = http_get

    async def open(self, path: str) -> None:
        await self._kept.prepare(self._id)
        await super().open(path)

    def target(self) -> Target | None:
        socket = self._socket()
        stripped = f"{self.base_url}portal/clusters/{self._id}/"
        return Target(socket, stripped=stripped) if socket else None

    def answered(self, path: str) -> bool:
        if self._socket():
            return False
        self.set_status(404)
        write_page(self, self.title, _GONE)
        return True

    def _socket(self) -> Path | None:
        return self._clusters.socket(self._id) or self._kept.socket(self._id)
