"""Replica sets: numbers of sessions that the portal keeps running. The endings of kernels and runs
are stored in their words."""

import sqlalchemy as sa
from alembic import op

from portal.store.migrations.columns import create_table, documents, numbers, times, words

revision = "0020"
down_revision = "0019"

_OF_RUNS = (("The session", "The run"), ("the session", "the run"))
_OF_KERNELS = (
    ("The server was shut down from inside the session", "The kernel was shut down"),
    ("its server", "its program"),
    ("the server", "the program"),
    ("The session", "The kernel"),
    ("the session", "the kernel"),
    ("To continue, launch with a longer time limit.", "Choose a longer time limit next time."),
)


def upgrade() -> None:
    create_table(
        "replica_sets",
        *words("user", "id", "work"),
        *documents("options"),
        *numbers("replicas"),
        *times("created_at"),
        *words("problem"),
        key=["user", "id"],
    )
    sessions = sa.table("sessions", *words("work", "ending_message"))
    for work, pairs in (("run", _OF_RUNS), ("kernel", _OF_KERNELS)):
        text: sa.ColumnElement[str] = sessions.c.ending_message
        for of_session, own in pairs:
            text = sa.func.replace(text, of_session, own)
        change = sessions.update().where(sessions.c.work == work).values(ending_message=text)
        op.execute(change)
