"""Environments of a space as its sessions may use them now."""

from __future__ import annotations

from portal.catalog.availability import OfferCache
from portal.catalog.files import EnvironmentCatalog
from portal.errors import NotAllowed
from portal.launch.kinds.kind import environment_of
from portal.models.catalog.environment import Environment
from portal.models.person import Person
from portal.models.space import StoredSpace
from portal.spaces.registry import type_of


async def environments_in(
    catalog: EnvironmentCatalog, stored: StoredSpace, person: Person
) -> dict[str, Environment]:
    """Return the environments of a space that ``person`` may use in it, by name: the pinned one,
    or those of the (loaded) catalog that both have. Raises NotAllowed if there is none."""
    space = stored.space
    if space.pins:
        pinned = await usable_environment(catalog.offering, stored)
        return {pinned.name: pinned}
    offered = {
        environment.name: environment
        for environment in catalog.visible_to(person)
        if space.has(environment.name) and not type_of(space).unfit(environment)
    }
    if not offered:
        raise NotAllowed(
            f"None of the environments of the {space.called} is available to you. Ask its "
            f"{space.leader}."
        )
    return offered


async def environment_in(
    catalog: EnvironmentCatalog, stored: StoredSpace, person: Person, name: str | None
) -> Environment:
    """Return the environment that a session of a space has, if ``name`` is asked for; None: the
    first. Raises NotAllowed."""
    offered = await environments_in(catalog, stored, person)
    return environment_of(None if stored.space.pins else name, offered)


async def usable_environment(offering: OfferCache, kept: StoredSpace) -> Environment:
    """Return the pinned environment, on the GPUs where it passed its tests. Raises NotAllowed."""
    space = kept.space
    if kept.pinned is None:
        raise NotAllowed(f"The {space.called} has no environment yet.")
    reason = type_of(space).unfit(kept.pinned)
    if reason:
        raise NotAllowed(reason)
    offer = await offering.offer_for(kept.pinned)
    if offer.environment is None:
        raise NotAllowed(
            f"The environment of the {space.called} cannot be used now. {offer.reason} Its "
            f"{space.leader} can choose another one."
        )
    return offer.environment
