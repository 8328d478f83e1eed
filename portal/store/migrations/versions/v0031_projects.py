"""Projects, their members, and the project of a run."""

import sqlalchemy as sa
from alembic import op

from portal.store.migrations.columns import (
    create_index,
    create_table,
    documents,
    numbers,
    times,
    words,
)

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    create_table(
        "projects",
        *words("name", "state", "created_by", "answered_by"),
        *numbers("number"),
        *documents("project"),
        *documents("pinned", nullable=True),
        *times("created_at", "changed_at"),
        *times("answered_at", "archived_at", nullable=True),
        *words("answer"),
        key=["name"],
    )
    create_table(
        "project_members",
        *words("project", "person", "role", "source", "added_by"),
        *times("added_at"),
        *times("joined_at", nullable=True),
        key=["project", "person"],
    )
    create_index("project_members", "person")
    op.add_column("runs", sa.Column("project", sa.Text(), nullable=False, server_default=""))
