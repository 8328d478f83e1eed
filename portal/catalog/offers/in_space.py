"""Environment of a space as its sessions may use it now."""

from __future__ import annotations

from portal.catalog.availability import OfferCache
from portal.errors import NotAllowed
from portal.models.catalog.environment import Environment
from portal.models.space import StoredSpace
from portal.spaces.registry import type_of


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
