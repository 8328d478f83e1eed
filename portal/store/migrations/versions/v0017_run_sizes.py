"""Bytes of what the jobs of runs have stored; none of earlier ones."""

from portal.store.migrations.columns import create_table, numbers, words

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    create_table("run_sizes", *words("user", "run"), *numbers("bytes"), key=["user", "run"])
