"""``api/v1/environments``: the catalog, as the requester may see it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from portal.catalog import CatalogError
from portal.errors import Unavailable
from portal.models import Frozen
from portal.models.audit import AuditAction
from portal.models.catalog.catalog import EnvironmentVersion
from portal.models.catalog.environment_item import EnvironmentDetail, EnvironmentItem
from portal.models.scope import ENVIRONMENTS_MANAGE

from ..base.action import Action
from ..base.endpoint import Operation, Query
from .editing import NAME, CuratorOperation, Edit, NewEnvironment
from .items import CatalogView, as_seen_by_catalog, version_item

__all__ = ["ENDPOINTS", "as_seen_by_catalog"]


class EnvironmentQuery(Query):
    """Filter of the environments."""

    all: Annotated[
        bool,
        Field(
            description="Also drafts and environments that are not offered, with the reason. Needs "
            f"{ENVIRONMENTS_MANAGE}."
        ),
    ] = False


class EnvironmentList(Frozen):
    """Environments in the order of the launch page.

    ``errors``, for admins only, lists what is wrong in the files.
    """

    items: tuple[EnvironmentItem, ...]
    next: str | None
    errors: tuple[CatalogError, ...] = ()


class EnvironmentsEndpoint(Action):
    """Catalog of environments."""

    path = "environments"

    @Operation("Environments that you may use.", query=EnvironmentQuery, sparse=True)
    async def on_get(self) -> EnvironmentList:
        """Return those that are offered to one of your groups or to everyone."""
        if self.query.all and not self.person.may(ENVIRONMENTS_MANAGE):
            await self.refused("All environments.", ENVIRONMENTS_MANAGE)
        catalog = self.parts.catalog
        await catalog.load()
        if not catalog.loaded:
            raise Unavailable("The directory of environments cannot be read now.")
        view = CatalogView(self.parts, self.person)
        await view.ask()
        if self.query.all:
            items = await _everything(view)
        else:
            items = [view.item(environment) for environment in catalog.visible_to(view.person)]
        if view.person.admin:
            return EnvironmentList(items=tuple(items), next=None, errors=tuple(catalog.errors))
        return EnvironmentList(items=tuple(items), next=None)

    @CuratorOperation(
        "Create an environment as a draft.", body=NewEnvironment, status=201, errors=(409,)
    )
    async def on_post(self) -> EnvironmentVersion:
        """Save a draft, which users see once it is built, tested and published."""
        name = str(self.body.definition.get("name", ""))[:63]
        async with self.audited(AuditAction.CREATE_ENVIRONMENT, f"environment {name}") as line:
            version = await self.parts.curator.create(
                self.body.definition, self.person.name, self.body.comment
            )
            line.target = f"environment {version.name} version {version.number}"
        return version


async def _everything(view: CatalogView) -> list[EnvironmentItem]:
    """Return all environments, including those that are not offered or were never published."""
    catalog, versions = view.parts.catalog, view.parts.store.versions
    newest, published = await versions.newest(), await versions.published()
    items = []
    for name, environment in catalog.environments.items():
        if not catalog.sees(view.person, environment):
            continue
        offer, more = catalog.offers[name], {}
        if name in newest and not (environment.private or name in catalog.previews):
            now = published.get(name)
            if now is None or newest[name].number > now.number:
                more["draft"] = version_item(newest[name], now.number if now else None)
        offered = offer.environment is not None
        items.append(view.item(environment, offered=offered, reason=offer.reason, **more))
    for name, version in sorted(newest.items()):
        if name not in catalog.environments:
            draft = version.environment.model_copy(update={"state": version.state})
            reason = "Not published."
            if name in published:
                reason = "Its file is missing from the catalog's folder, or invalid."
            items.append(
                view.item(draft, offered=False, reason=reason, draft=version_item(version, None))
            )
    return items


class OneEnvironment(Action):
    """Environment by its name."""

    path = "environments/{environment}"
    parameters = NAME

    @Operation("One environment: contents, test results and users.", sparse=True)
    async def on_get(self, environment: str) -> EnvironmentDetail:
        """Include drafts and what is not offered for those who manage environments."""
        return await CatalogView(self.parts, self.person).detail_by_name(environment)

    @CuratorOperation("Save an edited environment as a new version.", body=Edit, errors=(409,))
    async def on_put(self, environment: str) -> EnvironmentVersion:
        """Save a version that people see when it is published.

        If the environment was saved since 'base', nothing is saved: the answer is a conflict, with
        both texts.
        """
        body: Edit = self.body
        async with self.audited(AuditAction.EDIT_ENVIRONMENT, f"environment {environment}") as line:
            version = await self.parts.curator.save(
                environment, body.definition, body.base, self.person.name, body.comment
            )
            line.target = f"environment {environment} version {version.number}"
            line.detail = body.comment
        return version


ENDPOINTS = (EnvironmentsEndpoint, OneEnvironment)
