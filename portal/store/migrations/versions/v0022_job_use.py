"""Use of GPUs and memory by jobs over time."""

from portal.store.migrations.columns import (
    create_index,
    create_table,
    documents,
    numbers,
    times,
    words,
)

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    create_table(
        "job_use",
        *words("job_id"),
        *numbers("began_at", "seconds"),
        *words("sources"),
        *documents("gpu", "gpu_memory", "memory"),
        *times("last_at"),
        key=["job_id", "began_at"],
    )
    create_index("job_use", "last_at")
