"""Endpoints that are served for a project, or shared with projects."""

import sqlalchemy as sa
from alembic import op

from portal.store.migrations.columns import documents

revision = "0033"
down_revision = "0032"


def upgrade() -> None:
    for table in ("endpoints", "endpoint_replicas"):
        op.add_column(table, sa.Column("project", sa.Text(), nullable=False, server_default=""))
    (projects,) = documents("projects")
    none = sa.Column("projects", projects.type, nullable=False, server_default="[]")
    op.add_column("endpoints", none)
