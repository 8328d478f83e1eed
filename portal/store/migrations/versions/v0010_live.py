"""Last outputs of failed points, and runs that keep the kernels of these."""

import sqlalchemy as sa
from alembic import op

from portal.store.migrations.columns import create_table, documents, numbers, times, words

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    create_table(
        "run_outputs",
        *words("user", "run"),
        *numbers("number", "attempt"),
        *times("at"),
        *documents("output"),
        key=["user", "run", "number"],
    )
    op.add_column(
        "runs",
        sa.Column("keep_failed", sa.Boolean(), nullable=False, server_default=sa.false()),
    )
