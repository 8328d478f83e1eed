"""``api/v1/model-catalog``: models that the site offers to serve, and their tests."""

from __future__ import annotations

from portal.handlers.base.endpoint import Operation
from portal.models import Frozen

from ..endpoints import EndpointAction
from .items import ModelItem


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


ENDPOINTS = (CatalogOfModels,)
