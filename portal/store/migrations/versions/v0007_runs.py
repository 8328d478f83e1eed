"""Runs and their points. A point has a row once it has reported, or its run has ended."""

from portal.store.migrations.columns import (
    create_index,
    create_table,
    documents,
    numbers,
    times,
    words,
)

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    create_table(
        "runs",
        *words("user", "id", "server", "name", "environment", "job_id"),
        *documents("resources"),
        *numbers("points", "at_once"),
        *times("created_at"),
        *times("ended_at", nullable=True),
        *words("source", "folder"),
        key=["user", "id"],
    )
    create_index("runs", "user", "created_at")
    create_index("runs", "ended_at")
    create_table(
        "run_points",
        *words("user", "run"),
        *numbers("number"),
        *words("state", "job"),
        *numbers("attempt"),
        *numbers("cell", "cells", nullable=True),
        *documents("metrics"),
        *times("started_at", "ended_at", nullable=True),
        *words("message"),
        key=["user", "run", "number"],
    )
