"""Spaces that have no sessions now. Pure."""

from __future__ import annotations

from ...models.space import STAFF, Role, SpaceState, StoredSpace
from .kind import Kind


def closed(kind: type[Kind], stored: StoredSpace, role: Role, now: float) -> str:
    """Return why no session of this kind starts at ``now`` (Unix seconds); "" if one does.

    The staff may try everything out before the space begins.
    """
    space = stored.space
    title = f"The {space.called}"
    if stored.state is SpaceState.ARCHIVED:
        return f"{title} is archived and has no more sessions. Your files are still there."
    if stored.state is SpaceState.REFUSED:
        return f"{title} was not approved, so it has no sessions."
    if stored.state is not SpaceState.APPROVED:
        return f"{title} has no sessions yet: an admin of the portal must approve it first."
    if space.pins and stored.pinned is None:
        return f"{title} has no environment yet: its {space.leader} must choose one."
    return space.closed(now, early=role in STAFF or kind.early) or kind.not_offered(space)
