"""Use of each GPU of jobs with several."""

import sqlalchemy as sa
from alembic import op

from portal.store.migrations.columns import documents

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    (gpus,) = documents("gpus")
    default = sa.text("'{}'")
    op.add_column("job_use", sa.Column("gpus", gpus.type, nullable=False, server_default=default))
