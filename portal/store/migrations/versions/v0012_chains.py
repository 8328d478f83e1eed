"""Runs that start after others, why such a run did not, and mail about runs; schedules of
runs."""

import sqlalchemy as sa
from alembic import op

from portal.store.migrations.columns import (
    create_index,
    create_table,
    documents,
    numbers,
    times,
    words,
)

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    for name in ("after", "reason"):
        op.add_column("runs", sa.Column(name, sa.Text(), nullable=False, server_default=""))
    create_table(
        "run_notices",
        *words("user", "run", "event"),
        *times("told_at", nullable=True),
        *words("outcome"),
        key=["user", "run", "event"],
    )
    create_index("run_notices", "told_at")
    create_table(
        "run_schedules",
        *words("user", "id", "name", "at", "timezone", "until"),
        *documents("days", "runs", "notify", "last_runs"),
        *times("created_at"),
        *times("next_at", "starting_at", "last_at", nullable=True),
        *numbers("refusals", "paused"),
        *words("message", "untold"),
        key=["user", "id"],
    )
    create_index("run_schedules", "next_at")
