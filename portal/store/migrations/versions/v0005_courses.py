"""Courses: their members, their starts, and what goes on in them."""

from portal.store.migrations.columns import (
    create_index,
    create_numbered_table,
    create_table,
    documents,
    numbers,
    row_number,
    times,
    words,
)

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    create_table(
        "courses",
        *words("name", "state"),
        *numbers("number"),
        *documents("course"),
        *documents("pinned", nullable=True),
        *words("created_by"),
        *times("created_at", "changed_at"),
        *words("answer", "answered_by"),
        *times("answered_at", "archived_at", nullable=True),
        key=["name"],
    )
    create_table(
        "course_members",
        *words("course", "person", "role", "source", "added_by"),
        *times("added_at"),
        key=["course", "person"],
    )
    create_index("course_members", "person")
    create_numbered_table(
        "course_starts",
        *words("course", "kind", "by"),
        *times("asked_at"),
        *times("meeting_at", "release_at", "ended_at", nullable=True),
        *words("message"),
    )
    create_index("course_starts", "course")
    create_table(
        "course_seats",
        row_number("start_id"),
        *words("person", "state", "message"),
        *times("asked_at", "ready_at", "ended_at", nullable=True),
        key=["start_id", "person"],
    )
    create_table(
        "course_reservations",
        *words("name", "course"),
        *times("meeting_at"),
        *words("state", "message", "spec"),
        *times("at"),
        key=["name"],
    )
    create_index("course_reservations", "course")
    create_table(
        "course_presence",
        *words("course", "person", "session_id"),
        *times("seen_at"),
        *times("opened_at", "last_activity", nullable=True),
        *documents("notebooks"),
        *words("hand"),
        *times("hand_at", nullable=True),
        *words("handout", "handout_message"),
        key=["course", "person"],
    )
    create_numbered_table(
        "course_messages",
        *words("course", "text", "by"),
        *times("at", "ends_at"),
    )
    create_index("course_messages", "course")
    create_numbered_table(
        "course_help",
        *words("course", "student", "server", "session_id", "helper", "state"),
        *numbers("minutes"),
        *times("asked_at"),
        *times("granted_at", "until", "ended_at", nullable=True),
        *words("ended_by"),
    )
    create_index("course_help", "state")
    create_index("course_help", "course", "student")
    create_numbered_table(
        "course_collects",
        *words("course", "folder", "by"),
        *times("at"),
        *times("closed_at", nullable=True),
    )
    create_index("course_collects", "course")
    create_table(
        "course_collected",
        row_number("collect_id"),
        *words("person"),
        *times("at"),
        *numbers("files", "size"),
        *words("message"),
        key=["collect_id", "person"],
    )
    create_numbered_table(
        "course_handouts",
        *words("course", "revision", "by"),
        *times("at"),
        *words("message"),
    )
    create_index("course_handouts", "course")
    create_index("sessions", "course", "submitted_at")
    create_index("usage_jobs", "course")
