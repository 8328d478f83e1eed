"""Figures of endpoints over time."""

from portal.store.migrations.columns import create_table, documents, numbers, times, words

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    create_table(
        "endpoint_figures",
        *words("endpoint"),
        *times("at", "seconds"),
        *numbers(
            "requests", "errors", "tokens", "in_flight", "waiting", "ready", "replicas", "gpus"
        ),
        *documents("latencies"),
        key=["endpoint", "at"],
    )
