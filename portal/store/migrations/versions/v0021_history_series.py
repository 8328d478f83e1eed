"""Quantities of the cluster over time, by name: the queue, waits, power and nodes."""

from portal.store.migrations.columns import create_table, numbers, times, words

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    create_table(
        "history_series",
        *numbers("seconds", "at"),
        *words("kind", "name"),
        *times("total"),
        *numbers("count"),
        key=["seconds", "at", "kind", "name"],
    )
