"""When somebody joined a course themselves: others start no GPU session as them before that.

Who was in a course and has had a session of it had begun to take part.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("course_members", sa.Column("joined_at", sa.Double()))
    op.execute(
        "UPDATE course_members SET joined_at = (SELECT MIN(submitted_at) FROM sessions"
        " WHERE sessions.course = course_members.course"
        ' AND sessions."user" = course_members.person)'
    )
