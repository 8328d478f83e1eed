"""Runs as those see them who may: which these are now, and what others are not told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from portal.models.person import Person
from portal.models.session.run import Run
from portal.models.session.session import SessionRecord
from portal.spaces.membership_cache import MembershipCache
from portal.work.run.results.item import RunItem, for_others, run_item
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.shares import Viewer

if TYPE_CHECKING:
    from portal.assembly import Services


async def viewer_of(memberships: MembershipCache[Any], person: Person) -> Viewer:
    """Return a person as a viewer of runs: their projects may be some seconds old, and their groups
    as old as the Hub's answer about them. Raises StoreUnavailable."""
    members = await memberships.of_type("project").of_user(person.name)
    return Viewer(person.name, [member.space for member in members], person.groups)


async def items_for(user: str, runs: Sequence[Run], parts: Services) -> list[RunItem]:
    """Return the items of runs as ``user`` sees them; one query counts the points of all of a
    user's. Raises StoreUnavailable."""
    count = parts.store.table(RunPointTable).counts
    counts = {
        owner: await count(owner, [run.id for run in runs if run.user == owner])
        for owner in {run.user for run in runs}
    }
    living = living_sessions(parts)
    visible_runs = [run if run.user == user else for_others(run) for run in runs]
    return [
        run_item(run, counts[run.user].get(run.id, {}), living.get((run.user, run.server)))
        for run in visible_runs
    ]


def living_sessions(parts: Services) -> Mapping[tuple[str, str], SessionRecord]:
    """Return the living sessions by user and server, as far as they are known."""
    view = parts.dashboard.view
    records = view.sessions.values() if view is not None else ()
    return {(record.user, record.server): record for record in records}
