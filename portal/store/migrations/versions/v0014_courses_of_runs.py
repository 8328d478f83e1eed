"""Course of a run; "" for all earlier runs."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    column = sa.Column("course", sa.Text(), nullable=False, server_default=sa.text("''"))
    op.add_column("runs", column)
