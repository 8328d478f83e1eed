"""Parameters of points, and the curves of their metrics (compressed JSON)."""

import sqlalchemy as sa
from alembic import op

from portal.store.migrations.columns import create_index, create_table, numbers, words

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    document = sa.JSON().with_variant(sa.dialects.postgresql.JSONB(), "postgresql")
    column = sa.Column("parameters", document, nullable=False, server_default="{}")
    op.add_column("run_points", column)
    create_index("run_points", "user", "run", "state")
    create_table(
        "run_curves",
        *words("user", "run"),
        *numbers("number", "attempt"),
        sa.Column("curves", sa.LargeBinary(), nullable=False),
        key=["user", "run", "number"],
    )
