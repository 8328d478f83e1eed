"""The first tables."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0001"
down_revision = None

_row = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_json = sa.JSON().with_variant(JSONB(), "postgresql")


def _words(*names: str) -> list[sa.Column]:
    return [sa.Column(name, sa.Text(), nullable=False) for name in names]


def _counts(*names: str, nullable: bool = False) -> list[sa.Column]:
    return [sa.Column(name, sa.BigInteger(), nullable=nullable) for name in names]


def _times(*names: str, nullable: bool = False) -> list[sa.Column]:
    return [sa.Column(name, sa.Double(), nullable=nullable) for name in names]


def _index(table: str, *columns: str) -> None:
    op.create_index(f"ix_{table}_{'_'.join(columns)}", table, list(columns))


def upgrade() -> None:
    op.create_table(
        "sessions",
        *_words("id", "user", "server", "account", "environment", "environment_title"),
        *_words("course", "job_id", "state", "ending_code", "ending_message", "stopped_by"),
        *_words("search"),
        sa.Column("groups", _json, nullable=False),
        sa.Column("options", _json, nullable=False),
        sa.Column("nodes", _json, nullable=False),
        *_times("submitted_at"),
        *_times("started_at", "ready_at", "ended_at", nullable=True),
        *_counts("peak_memory", "exit_code", nullable=True),
        *_words("log_path", "log"),  # the long ones last, which SQLite then need not read
        sa.PrimaryKeyConstraint("id", name="pk_sessions"),
    )
    _index("sessions", "user", "submitted_at")
    _index("sessions", "submitted_at")
    _index("sessions", "state", "submitted_at")
    _index("sessions", "environment")

    op.create_table(
        "history",
        *_counts("seconds", "at", "samples", "gpus_total", "gpus_unusable", "gpus_allocated"),
        *_counts("gpus_busy", "gpus_busy_samples", "jobs_running", "jobs_pending"),
        *_counts("sessions_running", "sessions_pending"),
        sa.PrimaryKeyConstraint("seconds", "at", name="pk_history"),
    )

    op.create_table(
        "usage_jobs",
        sa.Column("id", _row, nullable=False),
        *_words("job_id", "user", "account", "environment", "course", "session_id"),
        *_counts("submitted_at", "gpus", "closed"),
        sa.Column("groups", _json, nullable=False),
        *_times("accounted_until", nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_usage_jobs"),
        sa.UniqueConstraint("job_id", "submitted_at", name="uq_usage_jobs_job_id_submitted_at"),
    )
    _index("usage_jobs", "closed")
    _index("usage_jobs", "session_id")
    _index("usage_jobs", "user")
    op.create_table(
        "usage_groups",
        sa.Column("job", _row, nullable=False),
        *_words("name"),
        sa.PrimaryKeyConstraint("job", "name", name="pk_usage_groups"),
        sa.ForeignKeyConstraint(["job"], ["usage_jobs.id"], name="fk_usage_groups_job"),
    )
    op.create_table(
        "usage_days",
        *_words("day", "week"),
        sa.Column("job", _row, nullable=False),
        *_times("held", "used", "measured"),
        sa.PrimaryKeyConstraint("day", "job", name="pk_usage_days"),
        sa.ForeignKeyConstraint(["job"], ["usage_jobs.id"], name="fk_usage_days_job"),
    )
    _index("usage_days", "job")

    op.create_table(
        "session_reports",
        *_words("session_id"),
        *_counts("reports"),
        *_times("gpu_seconds", "busy_seconds", "last_at"),
        *_counts("peak_memory", "peak_gpu_memory", nullable=True),
        sa.PrimaryKeyConstraint("session_id", name="pk_session_reports"),
    )

    op.create_table(
        "announcements",
        sa.Column("id", _row, nullable=False),
        *_words("text", "level", "author"),
        *_times("starts_at", "ends_at", "created_at"),
        sa.PrimaryKeyConstraint("id", name="pk_announcements"),
        sqlite_autoincrement=True,
    )
    _index("announcements", "ends_at")

    op.create_table(
        "audit",
        sa.Column("id", _row, nullable=False),
        *_times("at"),
        *_words("actor", "action", "target", "owner", "outcome", "detail", "address", "search"),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
        sqlite_autoincrement=True,
    )
    for columns in (["at"], ["actor", "at"], ["action", "at"], ["owner", "at"], ["target"]):
        _index("audit", *columns)
    _append_only()


def _append_only() -> None:
    """Refuse changes of the audit log in the database itself: it is only ever added to."""
    words = "the audit log is only ever added to"
    if op.get_bind().dialect.name == "sqlite":
        for what in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER audit_no_{what.lower()} BEFORE {what} ON audit "
                f"BEGIN SELECT RAISE(ABORT, '{words}'); END"
            )
        op.execute(  # REPLACE is a DELETE that fires no trigger
            "CREATE TRIGGER audit_no_replace BEFORE INSERT ON audit "
            "WHEN NEW.id IN (SELECT id FROM audit) "
            "BEGIN SELECT RAISE(ABORT, 'the audit log is only ever added to'); END"
        )
        return
    op.execute(
        "CREATE FUNCTION audit_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{words}'; END $$"
    )
    op.execute(
        "CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit "
        "FOR EACH STATEMENT EXECUTE FUNCTION audit_append_only()"
    )
