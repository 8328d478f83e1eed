"""Work and space of each session; the course of a session is its space."""

import sqlalchemy as sa
from alembic import op

from portal.store.migrations.columns import create_index, documents, words
from portal.store.migrations.work import work_and_space

revision = "0019"
down_revision = "0018"

_PART = 1000  # rows


def upgrade() -> None:
    op.drop_index("ix_sessions_course_submitted_at", "sessions")
    op.alter_column("sessions", "course", new_column_name="space")
    empty = sa.text("''")
    op.add_column("sessions", sa.Column("work", sa.Text(), nullable=False, server_default=empty))
    create_index("sessions", "space", "submitted_at")
    sessions = sa.table("sessions", *words("id", "server", "work", "space"), *documents("options"))
    connection = op.get_bind()
    change = (
        sessions.update()
        .where(sessions.c.id == sa.bindparam("key"))
        .values(work=sa.bindparam("new_work"))
    )
    rows = connection.execute(sa.select(sessions.c.id, sessions.c.server, sessions.c.options))
    changes = [
        {"key": row.id, "new_work": work_and_space(row.server, row.options or {})[0]}
        for row in rows
    ]
    for first in range(0, len(changes), _PART):
        connection.execute(change, changes[first : first + _PART])
