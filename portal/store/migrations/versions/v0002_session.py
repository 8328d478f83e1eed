"""Tables of life in a session: starts, estimates, notices, snoozes, moves."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0002"
down_revision = "0001"

_json = sa.JSON().with_variant(JSONB(), "postgresql")


def _word(name: str) -> sa.Column:
    return sa.Column(name, sa.Text(), nullable=False)


def _time(name: str, *, nullable: bool = False) -> sa.Column:
    return sa.Column(name, sa.Double(), nullable=nullable)


def _key(table: str, *columns: str) -> sa.PrimaryKeyConstraint:
    return sa.PrimaryKeyConstraint(*columns, name=f"pk_{table}")


def upgrade() -> None:
    op.create_table(
        "idle_snoozes",
        _word("session_id"),
        _time("until"),
        sa.Column("times", sa.BigInteger(), nullable=False),
        _key("idle_snoozes", "session_id"),
    )
    op.create_table(
        "session_startups",
        _word("session_id"),
        _time("at"),
        sa.Column("steps", _json, nullable=False),
        _key("session_startups", "session_id"),
    )
    op.create_table(
        "notice_wishes",
        _word("user"),
        sa.Column("mail", sa.BigInteger(), nullable=False),
        _time("at"),
        _key("notice_wishes", "user"),
    )
    op.create_table(
        "notices",
        _word("session_id"),
        _word("kind"),
        _time("at"),
        _word("outcome"),
        _key("notices", "session_id", "kind"),
    )
    op.create_table(
        "start_estimates",
        _word("session_id"),
        _time("made_at"),
        _time("expected_at", nullable=True),
        _word("source"),
        _key("start_estimates", "session_id"),
    )
    op.create_index("ix_start_estimates_made_at", "start_estimates", ["made_at"])
