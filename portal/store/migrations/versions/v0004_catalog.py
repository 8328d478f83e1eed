"""The catalog: versions of environments, builds, tests, registries, requests, measurements."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0004"
down_revision = "0003"

_json = sa.JSON().with_variant(JSONB(), "postgresql")
_row = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _id() -> sa.Column:
    return sa.Column("id", _row, nullable=False)


def _word(name: str) -> sa.Column:
    return sa.Column(name, sa.Text(), nullable=False)


def _number(name: str, *, nullable: bool = False) -> sa.Column:
    return sa.Column(name, sa.BigInteger(), nullable=nullable)


def _time(name: str, *, nullable: bool = False) -> sa.Column:
    return sa.Column(name, sa.Double(), nullable=nullable)


def _document(name: str, *, nullable: bool = False) -> sa.Column:
    return sa.Column(name, _json, nullable=nullable)


def _key(table: str, *columns: str) -> sa.PrimaryKeyConstraint:
    return sa.PrimaryKeyConstraint(*columns, name=f"pk_{table}")


def upgrade() -> None:
    op.create_table(
        "environment_versions",
        _id(),
        _word("name"),
        _number("number"),
        _word("state"),
        _document("environment"),
        _word("author"),
        _time("at"),
        _word("origin"),
        _word("comment"),
        _word("message"),
        _number("base", nullable=True),
        _number("build_id", nullable=True),
        _word("file_hash"),
        _time("published_at", nullable=True),
        _key("environment_versions", "id"),
        sa.UniqueConstraint("name", "number", name="uq_environment_versions_name_number"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "image_builds",
        _id(),
        _word("key"),
        _word("source"),
        _word("digest"),
        _word("state"),
        _document("askers"),
        _word("job_id"),
        _word("nonce"),
        _word("log"),
        _word("step"),
        sa.Column("share", sa.Double()),
        _word("message"),
        _time("asked_at"),
        _time("started_at", nullable=True),
        _time("ended_at", nullable=True),
        _document("result", nullable=True),
        _key("image_builds", "id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_image_builds_key", "image_builds", ["key"])
    op.create_index("ix_image_builds_state", "image_builds", ["state"])
    op.create_table(
        "environment_tests",
        _id(),
        _word("fingerprint"),
        _word("name"),
        _number("number", nullable=True),
        _word("gpu_type"),
        _word("state"),
        _word("asker"),
        _word("job_id"),
        _word("nonce"),
        _word("log"),
        _word("step"),
        _word("message"),
        _time("asked_at"),
        _time("started_at", nullable=True),
        _time("ended_at", nullable=True),
        _document("result", nullable=True),
        _key("environment_tests", "id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_environment_tests_fingerprint", "environment_tests", ["fingerprint"])
    op.create_index("ix_environment_tests_name", "environment_tests", ["name"])
    op.create_index("ix_environment_tests_state", "environment_tests", ["state"])
    op.create_table(
        "environment_verdicts",
        _word("fingerprint"),
        _word("gpu_type"),
        _number("passed"),
        _word("message"),
        _time("at"),
        _document("mark", nullable=True),
        _document("facts"),
        _key("environment_verdicts", "fingerprint", "gpu_type"),
    )
    op.create_table(
        "environment_requests",
        _id(),
        _word("person"),
        _word("source"),
        _word("text"),
        _word("state"),
        _time("at"),
        _word("answer"),
        _word("answered_by"),
        _time("answered_at", nullable=True),
        _word("environment"),
        _key("environment_requests", "id"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "environment_favourites",
        _word("person"),
        _word("name"),
        _time("at"),
        _key("environment_favourites", "person", "name"),
    )
    op.create_table(
        "measurements",
        _id(),
        _word("environment"),
        _number("version", nullable=True),
        _word("benchmark"),
        _word("gpu_type"),
        _number("gpus"),
        _word("precision"),
        sa.Column("images_per_second", sa.Double(), nullable=False),
        _number("simulated"),
        _word("person"),
        _word("session_id"),
        _time("at"),
        _key("measurements", "id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_measurements_environment", "measurements", ["environment"])
    op.create_table(
        "registries",
        _word("host"),
        _word("username"),
        _word("secret"),
        _word("password_file"),
        _word("mirror"),
        _number("insecure"),
        _word("ca_file"),
        _word("author"),
        _time("at"),
        _key("registries", "host"),
    )
