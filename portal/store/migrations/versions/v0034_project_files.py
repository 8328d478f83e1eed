"""Files of projects, runs that repeat those of a file, and the conditions of runs."""

from portal.store.migrations.columns import create_table, documents, times, words

revision = "0034"
down_revision = "0033"


def upgrade() -> None:
    create_table(
        "project_contents",
        *words("project"),
        *documents("contents"),
        *words("origin", "left_out", "brought", "files"),
        *times("brought_at", nullable=True),
        key=["project"],
    )
    create_table(
        "project_repetitions",
        *words("project", "user", "run", "entry"),
        *times("at"),
        key=["project", "user", "run"],
    )
    create_table(
        "run_conditions",
        *words("user", "run"),
        *documents("conditions"),
        key=["user", "run"],
    )
