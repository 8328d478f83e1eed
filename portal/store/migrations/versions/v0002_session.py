"""Tables of life in a session: starts, estimates, notices, snoozes, moves."""

from portal.store.migrations.columns import (
    create_index,
    create_table,
    documents,
    numbers,
    times,
    words,
)

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    create_table(
        "idle_snoozes",
        *words("session_id"),
        *times("until"),
        *numbers("times"),
        key=["session_id"],
    )
    create_table(
        "session_startups",
        *words("session_id"),
        *times("at"),
        *documents("steps"),
        key=["session_id"],
    )
    create_table(
        "notice_wishes",
        *words("user"),
        *numbers("mail"),
        *times("at"),
        key=["user"],
    )
    create_table(
        "notices",
        *words("session_id", "kind"),
        *times("at"),
        *words("outcome"),
        key=["session_id", "kind"],
    )
    create_table(
        "start_estimates",
        *words("session_id"),
        *times("made_at"),
        *times("expected_at", nullable=True),
        *words("source"),
        key=["session_id"],
    )
    create_index("start_estimates", "made_at")
