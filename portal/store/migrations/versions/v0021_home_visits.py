"""Visits to Home, for what has ended since."""

from portal.store.migrations.columns import create_table, times, words

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    create_table("home_visits", *words("user"), *times("before_at", "seen_at"), key=["user"])
