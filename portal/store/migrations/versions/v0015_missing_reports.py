"""Points whose last report did not arrive, none of the earlier ones; runs that their users have
deleted."""

import sqlalchemy as sa
from alembic import op

from portal.store.migrations.columns import create_table, times, words

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    column: sa.Column[bool] = sa.Column(
        "missing", sa.Boolean(), nullable=False, server_default=sa.false()
    )
    op.add_column("run_points", column)
    create_table("deleted_runs", *words("user", "run"), *times("deleted_at"), key=["user", "run"])
