"""``api/v1/environments``: the catalog, as the person who asks may see it."""

from __future__ import annotations

from portal.catalog import CatalogError
from portal.errors import Unavailable
from portal.models import Frozen
from portal.models.environment import Environment, Kind
from portal.models.person import Person
from portal.models.resources import Resources
from portal.models.scope import NODES_MANAGE

from .endpoint import Endpoint, Operation

# The Hub calls everyone with an admin's token an admin, also where that token was made to do
# little, e.g. to read metrics. One of these scopes says that it was not: the first is the Hub's
# own, the second also comes with a login in a browser.
_ADMINS = ("admin:users", NODES_MANAGE)


class Limits(Frozen):
    """The most that one may ask for; null where the environment sets no limit."""

    gpus: int | None
    cpus: int | None
    memory: str | None
    time: str | None


class EnvironmentItem(Frozen):
    """One environment. ``groups``, ``image``, ``path`` and ``modules`` are for admins only."""

    name: str
    title: str
    kind: Kind
    description: str
    icon: str
    tags: tuple[str, ...]
    gpu_types: tuple[str, ...]
    default: Resources
    limits: Limits
    groups: tuple[str, ...] = ()
    image: str | None = None
    path: str | None = None
    modules: tuple[str, ...] = ()


class EnvironmentList(Frozen):
    """The environments in the order of the launch page. ``errors``, for admins only, says what is
    wrong in the files."""

    items: tuple[EnvironmentItem, ...]
    next: str | None
    errors: tuple[CatalogError, ...] = ()


class EnvironmentsEndpoint(Endpoint):
    """The catalog."""

    path = "environments"
    operations = {
        "get": Operation(
            summary="The environments that you may use.", answer=EnvironmentList, sparse=True
        )
    }

    async def on_get(self) -> EnvironmentList:
        catalog = self.parts.catalog
        await catalog.load()
        if not catalog.loaded:
            raise Unavailable("The directory of environments cannot be read now.")
        person = as_seen_by_catalog(self.person)
        items = tuple(described(found, person) for found in catalog.visible_to(person))
        if person.admin:
            return EnvironmentList(items=items, next=None, errors=tuple(catalog.errors))
        return EnvironmentList(items=items, next=None)


def as_seen_by_catalog(person: Person) -> Person:
    """The person with the rights over the catalog that this login or token has."""
    if person.admin and not any(map(person.may, _ADMINS)):
        return person.model_copy(update={"admin": False})
    return person


def described(environment: Environment, person: Person) -> EnvironmentItem:
    """One item. Paths on the hosts and groups are for admins; variables, which may hold secrets,
    are for nobody."""
    shown = {"name", "title", "kind", "description", "icon", "tags", "gpu_types"}
    if person.admin:
        shown |= {"image", "path", "modules", "groups"}
    return EnvironmentItem(
        **environment.model_dump(include=shown),
        default=Resources(**environment.default.model_dump()),  # all of it: the answer is sparse
        limits=Limits(
            gpus=environment.max_gpus,
            cpus=environment.max_cpus,
            memory=environment.max_memory,
            time=environment.max_time,
        ),
    )


ENDPOINTS = (EnvironmentsEndpoint,)
