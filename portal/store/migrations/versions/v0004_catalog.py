"""The catalog: versions of environments, builds, tests, registries, requests, measurements."""

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

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    create_numbered_table(
        "environment_versions",
        *words("name"),
        *numbers("number"),
        *words("state"),
        *documents("environment"),
        *words("author"),
        *times("at"),
        *words("origin", "comment", "message"),
        *numbers("base", "build_id", nullable=True),
        *words("file_hash"),
        *times("published_at", nullable=True),
        sa.UniqueConstraint("name", "number", name="uq_environment_versions_name_number"),
    )
    create_numbered_table(
        "image_builds",
        *words("key", "source", "digest", "state"),
        *documents("askers"),
        *words("job_id", "nonce", "log", "step"),
        *times("share", nullable=True),
        *words("message"),
        *times("asked_at"),
        *times("started_at", "ended_at", nullable=True),
        *documents("result", nullable=True),
    )
    create_index("image_builds", "key")
    create_index("image_builds", "state")
    create_numbered_table(
        "environment_tests",
        *words("fingerprint", "name"),
        *numbers("number", nullable=True),
        *words("gpu_type", "state", "asker", "job_id", "nonce", "log", "step", "message"),
        *times("asked_at"),
        *times("started_at", "ended_at", nullable=True),
        *documents("result", nullable=True),
    )
    create_index("environment_tests", "fingerprint")
    create_index("environment_tests", "name")
    create_index("environment_tests", "state")
    create_table(
        "environment_verdicts",
        *words("fingerprint", "gpu_type"),
        *numbers("passed"),
        *words("message"),
        *times("at"),
        *documents("mark", nullable=True),
        *documents("facts"),
        key=["fingerprint", "gpu_type"],
    )
    create_numbered_table(
        "environment_requests",
        *words("person", "source", "text", "state"),
        *times("at"),
        *words("answer", "answered_by"),
        *times("answered_at", nullable=True),
        *words("environment"),
    )
    create_table(
        "environment_favourites",
        *words("person", "name"),
        *times("at"),
        key=["person", "name"],
    )
    create_numbered_table(
        "measurements",
        *words("environment"),
        *numbers("version", nullable=True),
        *words("benchmark", "gpu_type"),
        *numbers("gpus"),
        *words("precision"),
        *times("images_per_second"),
        *numbers("simulated"),
        *words("person", "session_id"),
        *times("at"),
    )
    create_index("measurements", "environment")
    create_table(
        "registries",
        *words("host", "username", "secret", "password_file", "mirror"),
        *numbers("insecure"),
        *words("ca_file", "author"),
        *times("at"),
        key=["host"],
    )
