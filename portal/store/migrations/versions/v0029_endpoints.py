"""Endpoints, their versions and replicas."""

import sqlalchemy as sa

from portal.store.migrations.columns import (
    create_index,
    create_table,
    documents,
    numbers,
    times,
    words,
)

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    create_table(
        "endpoints",
        *words("name", "user"),
        *times("created_at", "active_at"),
        *numbers("least", "most", "target", "idle"),
        *documents("limits", "users", "groups", "shares"),
        sa.Column("everyone", sa.Boolean(), nullable=False),
        *words("problem"),
        key=["name"],
    )
    create_table(
        "endpoint_versions",
        *words("endpoint"),
        *numbers("number"),
        *times("created_at"),
        *documents("source", "command", "paths", "example", "resources"),
        *words("environment", "digest", "health"),
        *numbers("environment_version", "failures"),
        *words("folder", "problem"),
        key=["endpoint", "number"],
    )
    create_table(
        "endpoint_replicas",
        *words("user", "id", "endpoint", "environment", "health", "successor_of", "job_id"),
        *numbers("version", "environment_version", "port"),
        *documents("command"),
        *words("folder", "gateway", "certificate"),
        *times("created_at", "overlap"),
        *times("waited", "loaded", nullable=True),
        *times("answered_at", "ready_at", "draining_at", "ended_at", "told_at", nullable=True),
        key=["user", "id"],
    )
    create_index("endpoint_replicas", "endpoint")
