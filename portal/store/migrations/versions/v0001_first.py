"""The first tables."""

import sqlalchemy as sa
from alembic import op

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

revision = "0001"
down_revision = None


def upgrade() -> None:
    create_table(
        "sessions",
        *words("id", "user", "server", "account", "environment", "environment_title"),
        *words("course", "job_id", "state", "ending_code", "ending_message", "stopped_by"),
        *words("search"),
        *documents("groups", "options", "nodes"),
        *times("submitted_at"),
        *times("started_at", "ready_at", "ended_at", nullable=True),
        *numbers("peak_memory", "exit_code", nullable=True),
        *words("log_path", "log"),  # the long ones last, which SQLite then need not read
        key=["id"],
    )
    create_index("sessions", "user", "submitted_at")
    create_index("sessions", "submitted_at")
    create_index("sessions", "state", "submitted_at")
    create_index("sessions", "environment")

    create_table(
        "history",
        *numbers("seconds", "at", "samples", "gpus_total", "gpus_unusable", "gpus_allocated"),
        *numbers("gpus_busy", "gpus_busy_samples", "jobs_running", "jobs_pending"),
        *numbers("sessions_running", "sessions_pending"),
        key=["seconds", "at"],
    )

    create_table(
        "usage_jobs",
        row_number(),
        *words("job_id", "user", "account", "environment", "course", "session_id"),
        *numbers("submitted_at", "gpus", "closed"),
        *documents("groups"),
        *times("accounted_until", nullable=True),
        sa.UniqueConstraint("job_id", "submitted_at", name="uq_usage_jobs_job_id_submitted_at"),
        key=["id"],
    )
    create_index("usage_jobs", "closed")
    create_index("usage_jobs", "session_id")
    create_index("usage_jobs", "user")
    create_table(
        "usage_groups",
        row_number("job"),
        *words("name"),
        sa.ForeignKeyConstraint(["job"], ["usage_jobs.id"], name="fk_usage_groups_job"),
        key=["job", "name"],
    )
    create_table(
        "usage_days",
        *words("day", "week"),
        row_number("job"),
        *times("held", "used", "measured"),
        sa.ForeignKeyConstraint(["job"], ["usage_jobs.id"], name="fk_usage_days_job"),
        key=["day", "job"],
    )
    create_index("usage_days", "job")

    create_table(
        "session_reports",
        *words("session_id"),
        *numbers("reports"),
        *times("gpu_seconds", "busy_seconds", "last_at"),
        *numbers("peak_memory", "peak_gpu_memory", nullable=True),
        key=["session_id"],
    )

    create_numbered_table(
        "announcements",
        *words("text", "level", "author"),
        *times("starts_at", "ends_at", "created_at"),
    )
    create_index("announcements", "ends_at")

    create_numbered_table(
        "audit",
        *times("at"),
        *words("actor", "action", "target", "owner", "outcome", "detail", "address", "search"),
    )
    for columns in (["at"], ["actor", "at"], ["action", "at"], ["owner", "at"], ["target"]):
        create_index("audit", *columns)
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
