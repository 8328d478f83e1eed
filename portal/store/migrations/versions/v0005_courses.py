"""Courses: their members, their starts, and what goes on in them."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0005"
down_revision = "0004"

_json = sa.JSON().with_variant(JSONB(), "postgresql")
_row = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _words(*names: str) -> list[sa.Column]:
    return [sa.Column(name, sa.Text(), nullable=False) for name in names]


def _times(*names: str, nullable: bool = True) -> list[sa.Column]:
    return [sa.Column(name, sa.Double(), nullable=nullable) for name in names]


def _numbers(*names: str) -> list[sa.Column]:
    return [sa.Column(name, sa.BigInteger(), nullable=False) for name in names]


def _id(name: str = "id") -> sa.Column:
    return sa.Column(name, _row, nullable=False)


def _key(table: str, *columns: str) -> sa.PrimaryKeyConstraint:
    return sa.PrimaryKeyConstraint(*columns, name=f"pk_{table}")


def _index(table: str, *columns: str) -> None:
    op.create_index(f"ix_{table}_{'_'.join(columns)}", table, list(columns))


def upgrade() -> None:
    op.create_table(
        "courses",
        *_words("name", "state"),
        *_numbers("number"),
        sa.Column("course", _json, nullable=False),
        sa.Column("pinned", _json),
        *_words("created_by"),
        *_times("created_at", "changed_at", nullable=False),
        *_words("answer", "answered_by"),
        *_times("answered_at", "archived_at"),
        _key("courses", "name"),
    )
    op.create_table(
        "course_members",
        *_words("course", "person", "role", "source", "added_by"),
        *_times("added_at", nullable=False),
        _key("course_members", "course", "person"),
    )
    _index("course_members", "person")
    op.create_table(
        "course_starts",
        _id(),
        *_words("course", "kind", "by"),
        *_times("asked_at", nullable=False),
        *_times("meeting_at", "release_at", "ended_at"),
        *_words("message"),
        _key("course_starts", "id"),
        sqlite_autoincrement=True,
    )
    _index("course_starts", "course")
    op.create_table(
        "course_seats",
        _id("start_id"),
        *_words("person", "state", "message"),
        *_times("asked_at", "ready_at", "ended_at"),
        _key("course_seats", "start_id", "person"),
    )
    op.create_table(
        "course_reservations",
        *_words("name", "course"),
        *_times("meeting_at", nullable=False),
        *_words("state", "message", "spec"),
        *_times("at", nullable=False),
        _key("course_reservations", "name"),
    )
    _index("course_reservations", "course")
    op.create_table(
        "course_presence",
        *_words("course", "person", "session_id"),
        *_times("seen_at", nullable=False),
        *_times("opened_at", "last_activity"),
        sa.Column("notebooks", _json, nullable=False),
        *_words("hand"),
        *_times("hand_at"),
        *_words("handout", "handout_message"),
        _key("course_presence", "course", "person"),
    )
    op.create_table(
        "course_messages",
        _id(),
        *_words("course", "text", "by"),
        *_times("at", "ends_at", nullable=False),
        _key("course_messages", "id"),
        sqlite_autoincrement=True,
    )
    _index("course_messages", "course")
    op.create_table(
        "course_help",
        _id(),
        *_words("course", "student", "server", "session_id", "helper", "state"),
        *_numbers("minutes"),
        *_times("asked_at", nullable=False),
        *_times("granted_at", "until", "ended_at"),
        *_words("ended_by"),
        _key("course_help", "id"),
        sqlite_autoincrement=True,
    )
    _index("course_help", "state")
    _index("course_help", "course", "student")
    op.create_table(
        "course_collects",
        _id(),
        *_words("course", "folder", "by"),
        *_times("at", nullable=False),
        *_times("closed_at"),
        _key("course_collects", "id"),
        sqlite_autoincrement=True,
    )
    _index("course_collects", "course")
    op.create_table(
        "course_collected",
        _id("collect_id"),
        *_words("person"),
        *_times("at", nullable=False),
        *_numbers("files", "size"),
        *_words("message"),
        _key("course_collected", "collect_id", "person"),
    )
    op.create_table(
        "course_handouts",
        _id(),
        *_words("course", "revision", "by"),
        *_times("at", nullable=False),
        *_words("message"),
        _key("course_handouts", "id"),
        sqlite_autoincrement=True,
    )
    _index("course_handouts", "course")
    _index("sessions", "course", "submitted_at")
    _index("usage_jobs", "course")
