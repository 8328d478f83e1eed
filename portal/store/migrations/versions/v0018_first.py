"""Oldest version that is upgraded. A new database gets its tables from the code (``upgrade``)."""

revision = "0018"
down_revision = None


def upgrade() -> None:
    pass
