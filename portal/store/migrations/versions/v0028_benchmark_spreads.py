"""Spreads of benchmarks' results, and the part by which each must be worse to be a fall."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    for name, default in (("spread", "0"), ("threshold", "0.1")):
        given = sa.text(default)
        column: sa.Column[float] = sa.Column(
            name, sa.Double(), nullable=False, server_default=given
        )
        op.add_column("benchmark_results", column)
