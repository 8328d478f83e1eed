"""Proxy to the pages of a cluster's scheduler, behind the session's login."""

from __future__ import annotations

from ..programs.page import write_page
from ..programs.proxy import SessionProxy
from ..programs.target import Target
from .clusters import Clusters

_GONE = "This cluster has been closed, or its notebook's kernel has ended. (Ray's has no pages.)"


class ClusterProxy(SessionProxy):
    """``portal/clusters/ID/…``. No request counts as activity: a dashboard in a forgotten tab polls
    for ever."""

    title = "The dashboard"
    is_activity = False

    def initialize(self, clusters: Clusters, id: str) -> None:
        self._clusters, self._id = clusters, id

    def target(self) -> Target | None:
        socket = self._clusters.socket(self._id)
        stripped = f"{self.base_url}portal/clusters/{self._id}/"
        return Target(socket, stripped=stripped) if socket else None

    def answered(self, path: str) -> bool:
        if self._clusters.socket(self._id):
            return False
        self.set_status(404)
        write_page(self, self.title, _GONE)
        return True
