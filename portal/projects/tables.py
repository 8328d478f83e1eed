"""Tables of projects and their members. Written by the service only; the Hub reads them."""

from __future__ import annotations

from portal.store.engine.columns import (
    COUNT,
    NAME,
    TEXT,
    TIME,
    Json,
    filled,
    keyed,
    keys,
    optional,
)
from portal.store.spaces import SpaceMemberTable, SpaceTable

from .models import ProjectMember, StoredProject

projects = keyed(
    "projects",
    *keys(NAME, "name"),
    *filled(NAME, "state", "created_by", "answered_by"),
    *filled(COUNT, "number"),
    *filled(Json, "project"),
    *optional(Json, "pinned"),
    *filled(TIME, "created_at", "changed_at"),
    *optional(TIME, "answered_at", "archived_at"),
    *filled(TEXT, "answer"),
)
project_members = keyed(
    "project_members",
    *keys(NAME, "project"),
    *keys(NAME, "person", index=True),
    *filled(NAME, "role", "source", "added_by"),
    *filled(TIME, "added_at"),
    *optional(TIME, "joined_at"),
)


class ProjectMemberTable(SpaceMemberTable[ProjectMember]):
    """The table of projects' members; ``added_at`` is since when they have their role. Every method
    raises StoreUnavailable."""

    table, model, noun = project_members, ProjectMember, "project"
    updated = ("role", "source", "added_by", "added_at")


class ProjectTable(SpaceTable[StoredProject]):
    """The table of projects. Every method raises StoreUnavailable."""

    table, model, noun, member_table = projects, StoredProject, "project", ProjectMemberTable
