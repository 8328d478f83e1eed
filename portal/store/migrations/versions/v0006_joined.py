"""Time of a member's own joining of a course: others start no GPU session as them before that.

Members who had a session of the course already count as joined since their first one.
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
