"""Bodies of requests about projects, and of their answers. Times are Unix seconds."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from pydantic import Field, StringConstraints

from portal.handlers.base.endpoint import Query
from portal.handlers.base.paging import PageQuery
from portal.models import Frozen
from portal.models.plain_text import PLAIN_TEXT
from portal.models.space import Login, Role, SpaceName, SpaceState

from .members import MOST
from .models import Project, ProjectRole

Number = Annotated[int, Field(ge=1, le=2**31 - 1, strict=True)]
_Answer = Annotated[str, StringConstraints(max_length=2000, strip_whitespace=True), *PLAIN_TEXT]


class ProjectsQuery(PageQuery):
    """Filters and page of the projects."""

    state: Annotated[SpaceState | None, Field(description="Only projects in this state.")] = None
    mine: Annotated[
        bool,
        Field(description="Only your own. Otherwise, users who manage projects get all."),
    ] = False


class ProjectPerson(Frozen):
    """Member and their role."""

    person: Login
    role: ProjectRole


People = Annotated[tuple[ProjectPerson, ...], Field(max_length=MOST)]


class NewProject(Frozen):
    """New project. You are its owner, beside the ``members``."""

    project: Project
    members: People = ()


class ProjectEdit(Frozen):
    """Edited project. ``number``: of the state that was edited."""

    project: Project
    number: Number


class ProjectStep(Frozen):
    """Step in a project's life. ``number``: of the state that was looked at."""

    number: Number


class ProjectAnswer(ProjectStep):
    """Answer of an admin to a request."""

    answer: _Answer = ""


class WantedMembers(Frozen):
    """People who get this role in the project, whether they are members or not."""

    people: Annotated[tuple[Login, ...], Field(min_length=1, max_length=MOST)]
    role: ProjectRole = Role.MEMBER


class MemberQuery(Query):
    """Member who is removed."""

    person: Annotated[Login, Field(description="User name of the member.")]


class HandOver(Frozen):
    """Handing over: ``person`` becomes an owner, and the owner ``giver`` (null: you) a member."""

    person: Login
    giver: Login | None = None


class ImportedProject(Frozen):
    """File of a project, as it is exported. ``name``: the new project's, null for the file's own;
    ``members``: whether the file's members are members of the new project, too."""

    text: Annotated[str, Field(min_length=1, max_length=200_000)]
    name: SpaceName | None = None
    members: Annotated[bool, Field(strict=True)] = False


class ProjectItem(Frozen):
    """Project in a list. ``role``: yours in it; null for an admin who is not a member. ``closed``:
    why it has no sessions now; "" if it has; ``problem``: such as that no owner may sign in."""

    name: str
    title: str
    state: SpaceState
    role: Role | None
    account: str | None
    budget: float | None
    used: float
    ends: date | None
    created_by: str
    changed_at: float
    closed: str
    problem: str


class MemberItem(Frozen):
    """Member. ``source``: "group" if they come from the directory's group; ``gpu_hours``: used in
    the project."""

    person: str
    role: Role
    source: str
    added_by: str
    added_at: float
    gpu_hours: float


class BudgetUse(Frozen):
    """GPU-hours used, and ``weekly``: in the last seven days. ``until``: when the budget is used up
    at this pace; null without a budget or a pace."""

    budget: float | None
    used: float
    weekly: float
    until: float | None


class FolderItem(Frozen):
    """Folder of the project. ``path``: "" if the site has none; ``exists``: null if its file system
    does not answer."""

    path: str
    exists: bool | None


class WorkItem(Frozen):
    """Session, kernel or run that waits or runs. ``kind``: what it is, in words."""

    user: str
    kind: str
    server: str
    environment: str
    state: str
    gpus: int
    submitted_at: float


class ProjectDetail(Frozen):
    """Project as its members see it. ``number`` counts its edits: send back the one you saw.
    ``may``: what you can do with it now; ``closed``: why it has no sessions, "" if it has;
    ``group_error``: why the group of the directory could not be read."""

    project: Project
    state: SpaceState
    number: int
    role: Role | None
    created_by: str
    created_at: float
    changed_at: float
    answer: str
    answered_by: str
    answered_at: float | None
    archived_at: float | None
    may: tuple[str, ...]
    closed: str
    group_error: str
    problem: str
    budget: BudgetUse
    folder: FolderItem
    members: tuple[MemberItem, ...]
    work: tuple[WorkItem, ...]
