"""Searches of runs, and the parameters that were chosen for their points."""

from portal.store.migrations.columns import create_table, documents, numbers, times, words

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    create_table(
        "run_searches",
        *words("user", "run"),
        *documents("search"),
        *times("created_at"),
        key=["user", "run"],
    )
    create_table(
        "run_trials",
        *words("user", "run"),
        *numbers("number"),
        *documents("chosen"),
        key=["user", "run", "number"],
    )
