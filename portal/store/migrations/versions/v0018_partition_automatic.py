"""True for a session whose partition the portal chose; false for all earlier ones."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.add_column(
        "sessions",
        sa.Column("partition_automatic", sa.Boolean(), nullable=False, server_default=sa.false()),
    )
