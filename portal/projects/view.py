"""Projects as their members see them: with their budget, folder, members and what runs."""

from __future__ import annotations

import time

from portal.launch.kinds import kind_of
from portal.launch.kinds.program import ProgramKind
from portal.models.cluster.cluster import Job
from portal.models.person import Person
from portal.models.scope import PROJECTS_MANAGE
from portal.models.session.session import SessionRecord
from portal.models.space import Role, SpaceState
from portal.slurm import pending_words
from portal.store import Store

from .bodies import MemberItem, ProjectDetail, ProjectItem, WorkItem
from .models import StoredProject
from .parts import ProjectParts
from .space import way_out


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
        budget=await parts.funds.budget_of(stored, now),
        folder=await parts.rooms.of_project(name),
        members=tuple(
            MemberItem.like(member, gpu_hours=hours.get(member.person, 0.0))
            for member in members.values()
        ),
        work=tuple(
            _work_item(record, stored.project.title, parts.job_of(record))
            for record in living
            if record.ended_at is None
        ),
    )


def _work_item(record: SessionRecord, title: str, job: Job | None) -> WorkItem:
    gpus = record.options.get("gpus")
    return WorkItem(
        user=record.user,
        kind=_program(record),
        server=record.server,
        environment=record.environment_title or record.environment,
        state=str(record.state),
        gpus=gpus if isinstance(gpus, int) else 0,
        submitted_at=record.submitted_at,
        waits=_waits(title, job.reason) if job and job.state.pending else "",
    )


def _program(record: SessionRecord) -> str:
    """Return what a session is, in words: the program that it opens, if that is no JupyterLab."""
    kind = kind_of(record)
    return kind.title if issubclass(kind, ProgramKind) else kind.words.noun


def _waits(title: str, reason: str) -> str:
    """Return why a job of the project waits, in sentences."""
    words = pending_words(reason)
    return f"{words[:1].upper()}{words[1:]}. {way_out(title, reason)}".strip()
