"""Projects as their members see them: with their budget, folder, members and what runs."""

from __future__ import annotations

import asyncio
import time

from portal.launch.kinds import kind_of
from portal.models.person import Person
from portal.models.scope import PROJECTS_MANAGE
from portal.models.session.session import SessionRecord
from portal.models.space import Role, SpaceState
from portal.store import Store

from .bodies import (
    BudgetUse,
    FolderItem,
    MemberItem,
    ProjectDetail,
    ProjectItem,
    WorkItem,
)
from .models import StoredProject
from .parts import ProjectParts
from .place import folder_path, is_folder

_WEEK = 7 * 86400.0
_FOLDER = 2.0  # seconds that a page waits for the file system
_FAR = 10 * 365 * 86400.0  # a budget that lasts longer has no end that means anything


def may_do(stored: StoredProject, role: Role | None, person: Person) -> tuple[str, ...]:
    """Return the actions that this person can take now."""
    manages, state = person.may(PROJECTS_MANAGE), stored.state
    owns, open_ = role is Role.OWNER or manages, state is not SpaceState.ARCHIVED
    actions = {
        "edit": owns and open_,
        "approve": manages and state in (SpaceState.REQUESTED, SpaceState.REFUSED),
        "refuse": manages and state is SpaceState.REQUESTED,
        "archive": owns and open_,
        "restore": owns and not open_,
        "members": owns and open_,
        "hand-over": owns and open_,
        "export": owns,
        "leave": role is not None,
    }
    return tuple(name for name, may in actions.items() if may)


async def item_of(
    store: Store, stored: StoredProject, role: Role | None, problem: str = ""
) -> ProjectItem:
    """Return a project as lists show it. Raises StoreUnavailable."""
    return ProjectItem(
        name=stored.name,
        title=stored.project.title,
        state=stored.state,
        role=role,
        account=stored.project.account,
        budget=stored.project.budget,
        used=await store.usage.of_space(stored.name),
        ends=stored.project.ends,
        created_by=stored.created_by,
        changed_at=stored.changed_at,
        closed=stored.project.closed(time.time()),
        problem=problem,
    )


async def detail_of(
    parts: ProjectParts, store: Store, stored: StoredProject, person: Person
) -> ProjectDetail:
    """Return a project as its members see it. Raises StoreUnavailable."""
    name, now = stored.name, time.time()
    hours = {row.key: row.held_hours for row in await store.usage.by_person(name)}
    members = await parts.members.members_of(name)
    role = members[person.name].role if person.name in members else None
    living = await store.sessions.of_space(name, now)
    return ProjectDetail(
        **stored.model_dump(include=set(StoredProject.model_fields) - {"project", "pinned"}),
        project=stored.project,
        role=role,
        may=may_do(stored, role, person),
        closed=stored.project.closed(now),
        group_error=parts.members.troubles.get(name, ""),
        problem=parts.leaving.problem(name) or parts.folders.problem(name),
        budget=budget_use(
            stored.project.budget,
            sum(hours.values()),
            await store.usage.of_space(name, now - _WEEK),
            now,
        ),
        folder=await folder_of(parts.settings.root, name),
        members=tuple(
            MemberItem.like(member, gpu_hours=hours.get(member.person, 0.0))
            for member in members.values()
        ),
        work=tuple(_work_item(record) for record in living if record.ended_at is None),
    )


def budget_use(budget: float | None, used: float, weekly: float, now: float) -> BudgetUse:
    """Return the use of a budget at ``now`` (Unix seconds), and how long it lasts at the pace of
    the last week."""
    until = None
    if budget is not None and weekly > 0:
        left = max(0.0, budget - used) / weekly * _WEEK
        until = now + left if left < _FAR else None
    return BudgetUse(budget=budget, used=used, weekly=weekly, until=until)


async def folder_of(root: str, name: str) -> FolderItem:
    """Return the folder of a project below ``root``, "" if the site has none."""
    path = folder_path(root, name)
    if not path:
        return FolderItem(path="", exists=False)
    try:
        exists = await asyncio.wait_for(asyncio.to_thread(is_folder, path), _FOLDER)
    except (TimeoutError, OSError):
        return FolderItem(path=path, exists=None)
    return FolderItem(path=path, exists=exists)


def _work_item(record: SessionRecord) -> WorkItem:
    gpus = record.options.get("gpus")
    return WorkItem(
        user=record.user,
        kind=kind_of(record).words.noun,
        server=record.server,
        environment=record.environment_title or record.environment,
        state=str(record.state),
        gpus=gpus if isinstance(gpus, int) else 0,
        submitted_at=record.submitted_at,
    )
