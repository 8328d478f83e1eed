"""``api/v1/model-catalog``: models that the site offers to serve, and their tests."""

from __future__ import annotations

import contextlib
import time

from portal.errors import Conflict, NotFound
from portal.handlers.base.action import Confirmation
from portal.handlers.base.endpoint import Operation
from portal.handlers.catalog.editing import CuratorOperation
from portal.models import Frozen

from ..action import EndpointAction
from ..audit import EndpointAudit
from ..bodies import WantedVersion
from ..models import Endpoint
from .items import FINGERPRINT, PREFIX, ModelItem, version_of
from .model import MODEL


class ModelList(Frozen):
    """Models of the catalog that you may know of, by title."""

    items: tuple[ModelItem, ...]


class CatalogOfModels(EndpointAction):
    """Catalog of models."""

    path = "model-catalog"
    parameters = {}

    @Operation("List the models of the catalog.")
    async def on_get(self) -> ModelList:
        """Return them, those that are not offered with the reason."""
        view = self.catalog_view()
        await view.ask()
        return ModelList(items=tuple(view.items()))


class TestOfModel(EndpointAction):
    """Test of a model of the catalog."""

    __test__ = False  # not a test of pytest's
    path = "model-catalog/{model}/test"
    parameters = {"model": MODEL}

    @CuratorOperation("Test a model of the catalog.", status=202, errors=(409,))
    async def on_post(self, model: str) -> Confirmation:
        """Launch a replica in your name that must answer the example; then it is stopped.

        A model is offered once its test has passed, until its file or its environment changes.
        """
        user, name = self.person.name, f"{PREFIX}{model}"
        async with self.audited(EndpointAudit.TEST_MODEL, f"model {model}", user):
            self.check_offered()
            view = self.catalog_view()
            await view.ask()
            entry = view.known(model)
            with contextlib.suppress(NotFound):
                if (await self.table.get(name)).user != user:  # of another curator's test
                    await self.table.remove(name)
            with contextlib.suppress(Conflict):
                new = Endpoint(name=name, user=user, created_at=time.time(), limits=entry.limits)
                await self.table.add_endpoint(new)
            source = {"model": model, FINGERPRINT: view.fingerprint(entry)}
            endpoint = await self.table.get(name)
            if endpoint.user != user:
                raise Conflict("Another test of this model has just begun.")
            await self.add_version(endpoint, version_of(entry, WantedVersion()), source)
        return Confirmation(
            message=f"The model '{model}' is being tested; see the endpoint '{name}'."
        )


# The more general address is last.
ENDPOINTS = (
    TestOfModel,
    CatalogOfModels,
)
