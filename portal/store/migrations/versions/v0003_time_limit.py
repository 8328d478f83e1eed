"""Final time limit of a session's job: its launch may have asked for less."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("sessions", sa.Column("time_limit", sa.BigInteger()))
