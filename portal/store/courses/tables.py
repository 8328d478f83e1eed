"""The tables of courses: members, starts, activity in sessions. Written by the service only."""

from __future__ import annotations

from sqlalchemy import Index, Table
from sqlalchemy.sql.schema import SchemaItem

from ..engine.columns import (
    COUNT,
    NAME,
    ROW,
    TEXT,
    TIME,
    Json,
    filled,
    keyed,
    keys,
    numbered,
    optional,
)


def _of_course(name: str, *items: SchemaItem) -> Table:
    """Return a table of numbered rows, each of a course."""
    return numbered(name, *filled(NAME, "course", index=True), *items)


courses = keyed(
    "courses",
    *keys(NAME, "name"),
    *filled(NAME, "state", "created_by", "answered_by"),
    *filled(COUNT, "number"),
    *filled(Json, "course"),
    *optional(Json, "pinned"),
    *filled(TIME, "created_at", "changed_at"),
    *optional(TIME, "answered_at", "archived_at"),
    *filled(TEXT, "answer"),
)
course_members = keyed(
    "course_members",
    *keys(NAME, "course"),
    *keys(NAME, "person", index=True),
    *filled(NAME, "role", "source", "added_by"),
    *filled(TIME, "added_at"),
    *optional(TIME, "joined_at"),
)
course_starts = _of_course(
    "course_starts",
    *filled(NAME, "kind", "by"),
    *filled(TIME, "asked_at"),
    *optional(TIME, "meeting_at", "release_at", "ended_at"),
    *filled(TEXT, "message"),
)
course_seats = keyed(
    "course_seats",
    *keys(ROW, "start_id"),
    *keys(NAME, "person"),
    *filled(NAME, "state"),
    *filled(TEXT, "message"),
    *optional(TIME, "asked_at", "ready_at", "ended_at"),
)
course_reservations = keyed(
    "course_reservations",
    *keys(NAME, "name"),
    *filled(NAME, "course", index=True),
    *filled(NAME, "state"),
    *filled(TIME, "meeting_at", "at"),
    *filled(TEXT, "message", "spec"),
)
course_presence = keyed(
    "course_presence",
    *keys(NAME, "course", "person"),
    *filled(NAME, "session_id", "handout"),
    *filled(TIME, "seen_at"),
    *optional(TIME, "opened_at", "last_activity", "hand_at"),
    *filled(Json, "notebooks"),
    *filled(TEXT, "hand", "handout_message"),
)
course_messages = _of_course(
    "course_messages",
    *filled(TEXT, "text"),
    *filled(NAME, "by"),
    *filled(TIME, "at", "ends_at"),
)
course_help = numbered(
    "course_help",
    *filled(NAME, "course", "student", "server", "session_id", "helper", "ended_by"),
    *filled(NAME, "state", index=True),
    *filled(COUNT, "minutes"),
    *filled(TIME, "asked_at"),
    *optional(TIME, "granted_at", "until", "ended_at"),
    Index("ix_course_help_course_student", "course", "student"),
)
course_collects = _of_course(
    "course_collects",
    *filled(TEXT, "folder"),
    *filled(NAME, "by"),
    *filled(TIME, "at"),
    *optional(TIME, "closed_at"),
)
course_collected = keyed(
    "course_collected",
    *keys(ROW, "collect_id"),
    *keys(NAME, "person"),
    *filled(TIME, "at"),
    *filled(COUNT, "files", "size"),
    *filled(TEXT, "message"),
)
course_handouts = _of_course(
    "course_handouts",
    *filled(NAME, "revision", "by"),
    *filled(TIME, "at"),
    *filled(TEXT, "message"),
)
