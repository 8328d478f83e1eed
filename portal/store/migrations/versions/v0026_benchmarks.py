"""Results of benchmarks, and the runs that have them."""

import sqlalchemy as sa

from portal.store.migrations.columns import (
    create_index,
    create_numbered_table,
    create_table,
    documents,
    numbers,
    times,
    words,
)

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    create_table(
        "benchmark_runs",
        *words("user", "run", "name", "environment", "origin"),
        sa.Column("renew", sa.Boolean(), nullable=False),
        *numbers("version"),
        *times("added_at"),
        *times("taken_at", "told_at", nullable=True),
        *words("problem"),
        *documents("falls"),
        key=["user", "run"],
    )
    create_numbered_table(
        "benchmark_results",
        *words("user", "run", "benchmark", "environment", "gpu_type", "nodes", "name", "unit"),
        *words("conditions", "peak"),
        *numbers("version", "gpus"),
        *times("value", "operations"),
        *times("before", nullable=True),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        *times("at"),
    )
    create_index("benchmark_results", "user", "run")
    create_index("benchmark_results", "benchmark", "environment")
