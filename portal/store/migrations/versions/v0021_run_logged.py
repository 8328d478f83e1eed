"""Pictures and tables that points of runs have logged."""

import sqlalchemy as sa

from portal.store.migrations.columns import create_table, numbers, words

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    create_table(
        "run_logged",
        *words("user", "run"),
        *numbers("number", "attempt"),
        sa.Column("logged", sa.LargeBinary(), nullable=False),
        key=["user", "run", "number"],
    )
