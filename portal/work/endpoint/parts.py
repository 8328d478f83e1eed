"""Objects of the web service for endpoints."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING

from portal.work.replicas.parts import ReplicaParts
from portal.work.replicas.settings import Replicas

from .catalog.files import ModelCatalog, beside
from .catalog.testing import ModelTests
from .collector import FigureCollector
from .gateway import Gateway
from .keeping.keeper import Keeper
from .keeping.launches import Launches
from .keeping.notices import EndpointNotices
from .keeping.owners import Owners
from .keeping.spaces import EndpointSpaces

if TYPE_CHECKING:
    from portal.assembly import Services

STATE = "PORTAL_GATEWAY_STATE"  # the gateway's state directory (70-endpoints.py)
URL = "PORTAL_GATEWAY_URL"  # where it listens


class EndpointParts:
    """The gateway, and the loop that keeps the replicas of endpoints."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.gateway = Gateway(os.environ.get(STATE, ""))
        self.gateway_url = os.environ.get(URL, "http://127.0.0.1:8003").rstrip("/")
        self.figures = FigureCollector(services.store, self.gateway, services.log)
        self.keeper = Keeper(
            services.store,
            self.gateway,
            Launches(
                services.store,
                self.gateway,
                lambda: services.parts_for(ReplicaParts).reconciler.changed.set(),
                services.settings.get(Replicas).per_user,
            ),
            lambda: services.dashboard.view,
            EndpointNotices(services.notices, services.store, services.log),
            lambda: self.owners.gone,
            EndpointSpaces(services.store, services.memberships),
            services.log,
        )
        self.owners = Owners(
            services.store,
            services.hub,
            services.note,
            self.keeper.changed.set,
            services.log,
        )
        self.tests = ModelTests(services.store, self.keeper.changed.set, services.log)
        self.tasks: dict[str, Callable[[], Awaitable[None]]] = {
            "tests of the catalog of models": self.tests.run,
            "owners of endpoints": self.owners.run,
        }
        if self.gateway.offered:
            self.tasks |= {
                "keeper of endpoints": self.keeper.run,
                "requests that wait at endpoints": self.keeper.listen,
                "figures of endpoints": self.figures.run,
            }

    @cached_property
    def models(self) -> ModelCatalog:
        """The catalog of models, beside that of environments."""
        return ModelCatalog(beside(self._services.catalog.directory))
