"""Ranks of runs: processes on each node that execute a script together."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    ranks = sa.Column("ranks", sa.BigInteger(), nullable=False, server_default="0")
    op.add_column("runs", ranks)
