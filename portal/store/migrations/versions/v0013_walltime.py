"""Number of times that a run's point goes on after its time limit; 0 for all earlier runs."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    column = sa.Column("resumes", sa.BigInteger(), nullable=False, server_default="0")
    with op.batch_alter_table("runs") as table:
        table.add_column(column)
    with op.batch_alter_table("runs") as table:
        table.alter_column("resumes", server_default=None)
