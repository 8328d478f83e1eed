"""Models of the catalog as a person sees them, each offered or with the reason why not."""

from __future__ import annotations

from typing import Any

from portal.catalog import EnvironmentCatalog
from portal.errors import NotFound
from portal.handlers.catalog.items import as_seen_by_catalog
from portal.models import Frozen
from portal.models.person import Person
from portal.store import Store

from ..bodies import Example, WantedVersion
from ..models import EndpointVersion, RequestLimits
from ..tables import EndpointVersionTable
from .files import ModelCatalog
from .model import CatalogModel

PREFIX = "catalog-"  # of the endpoints that try models; the rest is the name of the model
FINGERPRINT, RESULT = "fingerprint", "result"  # of the source of their versions
PASSED, FAILED = "passed", "failed"


class ModelItem(Frozen):
    """Model of the catalog. ``offered``: whether you may serve it now; ``problem``: why not, a
    sentence."""

    name: str
    title: str
    description: str
    licence: str
    environment: str
    command: tuple[str, ...]
    folder: str
    health: str
    paths: tuple[str, ...]
    example: Example
    resources: dict[str, Any]
    limits: RequestLimits
    untested: str
    offered: bool
    problem: str


class ModelView:
    """View of the catalog of models for one person at one moment."""

    def __init__(
        self,
        models: ModelCatalog,
        environments: EnvironmentCatalog,
        store: Store,
        person: Person,
    ) -> None:
        self._models, self._environments, self._store = models, environments, store
        self._person = as_seen_by_catalog(person)
        self._tests: dict[tuple[str, str], EndpointVersion] = {}

    async def ask(self) -> None:
        """Read the files and the results of tests. Raises StoreUnavailable."""
        await self._models.load()
        await self._environments.load()
        self._tests = {}
        for test in await self._store.table(EndpointVersionTable).beginning(PREFIX):
            key = test.endpoint, str(test.source.get(FINGERPRINT, ""))
            # While it is tried again, the last result stands.
            if key[1] and (RESULT in test.source or key not in self._tests):
                self._tests[key] = test

    def items(self) -> list[ModelItem]:
        """Return the models that the person may know of."""
        return [self._item(model) for model in self._models.models.values() if self._sees(model)]

    def get(self, name: str) -> CatalogModel:
        """Return a model that the person may serve. Raises NotFound."""
        model = self.known(name)
        if problem := self.problem(model):
            raise NotFound(f"The model '{name}' is not offered: {problem}")
        return model

    async def completed(self, wanted: WantedVersion) -> WantedVersion:
        """Return a version with what it does not name of its model of the catalog. Raises NotFound
        for a model that the person may not serve, StoreUnavailable."""
        if not wanted.source.model:
            return wanted
        await self.ask()
        return version_of(self.get(wanted.source.model), wanted)

    def known(self, name: str) -> CatalogModel:
        """Return a model that the person may know of. Raises NotFound."""
        model = self._models.models.get(name)
        if model is None or not self._sees(model):
            raise NotFound(f"There is no model '{name[:60]}' in the catalog that you may use.")
        return model

    def fingerprint(self, model: CatalogModel) -> str:
        """Return what a test of the model as it is now is known by; "" without its environment."""
        environment = self._environments.environments.get(model.environment)
        return "" if environment is None else model.fingerprint(environment.fingerprint)

    def problem(self, model: CatalogModel) -> str:
        """Return why the person cannot serve the model, a sentence; "" if they can."""
        try:
            self._environments.get(model.environment, self._person)
        except NotFound:
            return f"You have no environment '{model.environment}', in which it runs."
        endpoint = f"{PREFIX}{model.name}"
        test = self._tests.get((endpoint, self.fingerprint(model)))
        if test is None:
            earlier = any(key == endpoint for key, _ in self._tests)
            if earlier:
                return "It or its environment was changed after its test."
            return f"It was not tested yet. {model.untested}".strip()
        result = test.source.get(RESULT)
        if result == FAILED:
            return f"Its test failed. {test.source.get('problem', '')}".strip()
        return "" if result == PASSED else "Its test is under way."

    def _sees(self, model: CatalogModel) -> bool:
        groups = set(model.groups)
        return not groups or self._person.admin or not groups.isdisjoint(self._person.groups)

    def _item(self, model: CatalogModel) -> ModelItem:
        problem = self.problem(model)
        return ModelItem.like(
            model,
            resources={
                name: value
                for name, value in model.resources.model_dump(mode="json").items()
                if name in model.resources.model_fields_set
            },
            offered=not problem,
            problem=problem,
        )


def version_of(model: CatalogModel, wanted: WantedVersion) -> WantedVersion:
    """Return a version of the model; what is ``wanted`` explicitly stands."""
    fields = ("environment", "command", "folder", "health", "paths", "example")
    of_model = {name: getattr(model, name) for name in fields} | model.resources.given()
    given = {name: getattr(wanted, name) for name in wanted.model_fields_set}
    return WantedVersion(**{**of_model, **given})
