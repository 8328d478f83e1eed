"""Routes for JupyterLab's panel of clusters, at ``<base_url>portal/clusters``: the session's and
the user's kept ones, their number of workers, their end."""

from __future__ import annotations

import json
from collections.abc import Coroutine
from typing import Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.utils import url_path_join
from tornado.web import authenticated

from ..chosen_id import ID
from ..local_api import LocalHandler, Refused
from ..service import ServiceError
from .clusters import Clusters
from .kept.kept import KeptClusters

# By the name of its function in portal_cluster: its title, whether its clusters can be kept, and
# whether they have a dashboard.
ENGINES = {
    "dask": {"title": "Dask", "keeps": True, "dashboard": True},
    "ray": {"title": "Ray", "keeps": False, "dashboard": False},
}


class _Handler(LocalHandler):
    """Base class of the handlers."""

    def initialize(self, clusters: Clusters, kept: KeptClusters) -> None:
        self.clusters, self.kept = clusters, kept

    async def ask(self, asked: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
        """Return the portal's answer. Raises Refused."""
        try:
            return await asked
        except ServiceError as error:
            raise Refused.by_portal(error) from None


class ClustersHandler(_Handler):
    """``GET portal/clusters``: all that can be seen here, and the engines of new ones."""

    @authenticated
    @authorized
    async def get(self) -> None:
        answer = await self.ask(self.kept.items())
        own = [{**item, "kept": False} for item in answer["session"]]
        kept = [{**item, "kept": True, "engine": "dask"} for item in answer["items"]]
        engines = [{"name": name, **about} for name, about in ENGINES.items()]
        items = {"items": [*own, *kept], "engines": engines, "most": answer["most"]}
        self.finish(json.dumps({**items, "idle": answer["idle"]}))


class ClusterHandler(_Handler):
    """``portal/clusters/ID``: the number of a cluster's workers, and its end."""

    @authenticated
    @authorized
    async def post(self, id: str) -> None:
        """Have the body's number of ``workers``."""
        self.check_owner()
        workers, own = self.body().get("workers"), id in self.clusters.clusters
        if isinstance(workers, bool) or not isinstance(workers, int) or workers < (1 if own else 0):
            raise Refused(400, f"'workers' must be a whole number from {int(own)} on.", "workers")
        if own:
            answer = await self.ask(self.clusters.scale(id, workers))
        else:
            answer = await self.ask(self.kept.have(id, {"workers": workers}))
        self.finish(json.dumps(answer))

    @authenticated
    @authorized
    async def delete(self, id: str) -> None:
        """End the cluster."""
        self.check_owner()
        own = id in self.clusters.clusters
        self.finish(json.dumps(await self.ask((self.clusters if own else self.kept).end(id))))


def routes(base: str, clusters: Clusters, kept: KeptClusters) -> list[Any]:
    """Return the routes below ``base``."""
    arguments = {"clusters": clusters, "kept": kept}
    return [
        (url_path_join(base, "portal/clusters"), ClustersHandler, arguments),
        (url_path_join(base, f"portal/clusters/({ID})"), ClusterHandler, arguments),
    ]
