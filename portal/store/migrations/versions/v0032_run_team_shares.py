"""Shares of runs with projects and groups, and an index of the runs of projects."""

from portal.store.migrations.columns import create_index, create_table, times, words

revision = "0032"
down_revision = "0031"


def upgrade() -> None:
    create_table(
        "run_team_shares",
        *words("owner", "run", "kind", "team"),
        *times("at"),
        key=["owner", "run", "kind", "team"],
    )
    create_index("run_team_shares", "kind", "team")
    create_index("runs", "project", "created_at")
