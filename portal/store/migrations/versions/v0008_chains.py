"""Runs that start after others, and why such a run did not."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    for name in ("after", "reason"):
        op.add_column("runs", sa.Column(name, sa.Text(), nullable=False, server_default=""))
