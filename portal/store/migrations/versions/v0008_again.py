"""Runs that run again: their points, what they repeat, their environment, and with whom they are
shared."""

import sqlalchemy as sa
from alembic import op

from portal.store.migrations.columns import create_index, create_table, documents, times, words

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    for name in ("only", "digest"):
        empty = sa.text("''")
        op.add_column("runs", sa.Column(name, sa.Text(), nullable=False, server_default=empty))
    for name in ("attempt", "version"):
        op.add_column("runs", sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))
    for column in (*documents("origin", nullable=True), *times("again_at", nullable=True)):
        op.add_column("runs", column)
    (drift,) = documents("drift")
    drift.server_default = sa.DefaultClause(sa.text("'[]'"))
    op.add_column("run_points", drift)
    create_table("run_shares", *words("owner", "run", "user"), *times("at"),
                 key=["owner", "run", "user"])  # fmt: skip
    create_index("run_shares", "user")
