"""Environment of a course as its sessions may use it now."""

from __future__ import annotations

from portal.catalog.availability import OfferCache
from portal.errors import NotAllowed
from portal.launch.course import unfit
from portal.models.catalog.environment import Environment
from portal.models.course.course import KeptCourse


async def usable_environment(offering: OfferCache, kept: KeptCourse) -> Environment:
    """Return the pinned environment, on the GPUs where it passed its tests. Raises NotAllowed."""
    if kept.pinned is None:
        raise NotAllowed(f"The course '{kept.course.title}' has no environment yet.")
    reason = unfit(kept.pinned)
    if reason:
        raise NotAllowed(reason)
    offer = await offering.offer_for(kept.pinned)
    if offer.environment is None:
        raise NotAllowed(
            f"The environment of the course '{kept.course.title}' cannot be used now. "
            f"{offer.reason} Its instructor can choose another one."
        )
    return offer.environment
