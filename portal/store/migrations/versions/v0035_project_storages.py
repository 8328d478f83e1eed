"""Storages of projects, with their encrypted keys."""

from portal.store.migrations.columns import create_table, times, words

revision = "0035"
down_revision = "0034"


def upgrade() -> None:
    create_table(
        "project_storages",
        *words("project", "name", "endpoint", "region", "access_key", "secret", "added_by"),
        *times("added_at"),
        key=["project", "name"],
    )
