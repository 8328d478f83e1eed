"""Replica sets: numbers of sessions that the portal keeps running."""

from portal.store.migrations.columns import create_table, documents, numbers, times, words

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    create_table(
        "replica_sets",
        *words("user", "id", "work"),
        *documents("options"),
        *numbers("replicas"),
        *times("created_at"),
        *words("problem"),
        key=["user", "id"],
    )
