"""The tables of courses: members, starts, activity in sessions. Written by the service only."""

from __future__ import annotations

from sqlalchemy import Column, Index, Table

from ..engine.columns import COUNT, NAME, ROW, TEXT, TIME, Json, metadata

courses = Table(
    "courses",
    metadata,
    Column("name", NAME, primary_key=True),
    Column("state", NAME, nullable=False),
    Column("number", COUNT, nullable=False),
    Column("course", Json, nullable=False),
    Column("pinned", Json),
    Column("created_by", NAME, nullable=False),
    Column("created_at", TIME, nullable=False),
    Column("changed_at", TIME, nullable=False),
    Column("answer", TEXT, nullable=False),
    Column("answered_by", NAME, nullable=False),
    Column("answered_at", TIME),
    Column("archived_at", TIME),
)
course_members = Table(
    "course_members",
    metadata,
    Column("course", NAME, primary_key=True),
    Column("person", NAME, primary_key=True, index=True),
    Column("role", NAME, nullable=False),
    Column("source", NAME, nullable=False),
    Column("added_by", NAME, nullable=False),
    Column("added_at", TIME, nullable=False),
    Column("joined_at", TIME),
)
course_starts = Table(
    "course_starts",
    metadata,
    Column("id", ROW, primary_key=True),
    Column("course", NAME, nullable=False, index=True),
    Column("kind", NAME, nullable=False),
    Column("by", NAME, nullable=False),
    Column("asked_at", TIME, nullable=False),
    Column("meeting_at", TIME),
    Column("release_at", TIME),
    Column("ended_at", TIME),
    Column("message", TEXT, nullable=False),
    sqlite_autoincrement=True,
)
course_seats = Table(
    "course_seats",
    metadata,
    Column("start_id", ROW, primary_key=True),
    Column("person", NAME, primary_key=True),
    Column("state", NAME, nullable=False),
    Column("message", TEXT, nullable=False),
    Column("asked_at", TIME),
    Column("ready_at", TIME),
    Column("ended_at", TIME),
)
course_reservations = Table(
    "course_reservations",
    metadata,
    Column("name", NAME, primary_key=True),
    Column("course", NAME, nullable=False, index=True),
    Column("meeting_at", TIME, nullable=False),
    Column("state", NAME, nullable=False),
    Column("message", TEXT, nullable=False),
    Column("spec", TEXT, nullable=False),
    Column("at", TIME, nullable=False),
)
course_presence = Table(
    "course_presence",
    metadata,
    Column("course", NAME, primary_key=True),
    Column("person", NAME, primary_key=True),
    Column("session_id", NAME, nullable=False),
    Column("seen_at", TIME, nullable=False),
    Column("opened_at", TIME),
    Column("last_activity", TIME),
    Column("notebooks", Json, nullable=False),
    Column("hand", TEXT, nullable=False),
    Column("hand_at", TIME),
    Column("handout", NAME, nullable=False),
    Column("handout_message", TEXT, nullable=False),
)
course_messages = Table(
    "course_messages",
    metadata,
    Column("id", ROW, primary_key=True),
    Column("course", NAME, nullable=False, index=True),
    Column("text", TEXT, nullable=False),
    Column("by", NAME, nullable=False),
    Column("at", TIME, nullable=False),
    Column("ends_at", TIME, nullable=False),
    sqlite_autoincrement=True,
)
course_help = Table(
    "course_help",
    metadata,
    Column("id", ROW, primary_key=True),
    Column("course", NAME, nullable=False),
    Column("student", NAME, nullable=False),
    Column("server", NAME, nullable=False),
    Column("session_id", NAME, nullable=False),
    Column("helper", NAME, nullable=False),
    Column("state", NAME, nullable=False, index=True),
    Column("minutes", COUNT, nullable=False),
    Column("asked_at", TIME, nullable=False),
    Column("granted_at", TIME),
    Column("until", TIME),
    Column("ended_at", TIME),
    Column("ended_by", NAME, nullable=False),
    Index("ix_course_help_course_student", "course", "student"),
    sqlite_autoincrement=True,
)
course_collects = Table(
    "course_collects",
    metadata,
    Column("id", ROW, primary_key=True),
    Column("course", NAME, nullable=False, index=True),
    Column("folder", TEXT, nullable=False),
    Column("by", NAME, nullable=False),
    Column("at", TIME, nullable=False),
    Column("closed_at", TIME),
    sqlite_autoincrement=True,
)
course_collected = Table(
    "course_collected",
    metadata,
    Column("collect_id", ROW, primary_key=True),
    Column("person", NAME, primary_key=True),
    Column("at", TIME, nullable=False),
    Column("files", COUNT, nullable=False),
    Column("size", COUNT, nullable=False),
    Column("message", TEXT, nullable=False),
)
course_handouts = Table(
    "course_handouts",
    metadata,
    Column("id", ROW, primary_key=True),
    Column("course", NAME, nullable=False, index=True),
    Column("revision", NAME, nullable=False),
    Column("by", NAME, nullable=False),
    Column("at", TIME, nullable=False),
    Column("message", TEXT, nullable=False),
    sqlite_autoincrement=True,
)
