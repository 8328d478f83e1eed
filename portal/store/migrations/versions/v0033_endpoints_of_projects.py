"""Endpoints that are served for a project, or shared with projects."""

import sqlalchemy as sa
from alembic import op

from portal.store.migrations.columns import documents

revision = "0033"
down_revision = "0032"


def upgrade() -> None:
    none = sa.text("''")
    for table in ("endpoints", "endpoint_replicas"):
        op.add_column(table, sa.Column("project", sa.Text(), nullable=False, server_default=none))
    (projects,) = documents("projects")
    empty = sa.text("'[]'")
    column = sa.Column("projects", projects.type, nullable=False, server_default=empty)
    op.add_column("endpoints", column)
