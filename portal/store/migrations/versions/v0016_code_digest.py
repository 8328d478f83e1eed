"""Digest of the code that a run executes; "" for all earlier runs."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    column = sa.Column("code_digest", sa.Text(), nullable=False, server_default=sa.text("''"))
    op.add_column("runs", column)
