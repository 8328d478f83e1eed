"""Tables, columns and indexes as the migrations write them.

They stay as they are: a change here would change what the earlier migrations do.
"""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.schema import SchemaItem

_ROW = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_JSON = sa.JSON().with_variant(JSONB(), "postgresql")


def row_number(name: str = "id") -> sa.Column:
    """Return the column of a row's number."""
    return sa.Column(name, _ROW, nullable=False)


def words(*names: str) -> list[sa.Column]:
    """Return columns of text."""
    return [sa.Column(name, sa.Text(), nullable=False) for name in names]


def numbers(*names: str, nullable: bool = False) -> list[sa.Column]:
    """Return columns of integers."""
    return [sa.Column(name, sa.BigInteger(), nullable=nullable) for name in names]


def times(*names: str, nullable: bool = False) -> list[sa.Column]:
    """Return columns of Unix seconds, and of other fractions."""
    return [sa.Column(name, sa.Double(), nullable=nullable) for name in names]


def documents(*names: str, nullable: bool = False) -> list[sa.Column]:
    """Return columns of JSON."""
    return [sa.Column(name, _JSON, nullable=nullable) for name in names]


def create_table(name: str, *items: SchemaItem, key: Sequence[str], **options: Any) -> None:
    """Create a table with the primary key ``key``; ``options`` are those of SQLAlchemy's Table."""
    primary = sa.PrimaryKeyConstraint(*key, name=f"pk_{name}")
    op.create_table(name, *items, primary, **options)


def create_numbered_table(name: str, *items: SchemaItem) -> None:
    """Create a table whose rows have a number, ``id``, that is never used again."""
    create_table(name, row_number(), *items, key=["id"], sqlite_autoincrement=True)


def create_index(table: str, *columns: str) -> None:
    """Create an index of ``table``."""
    op.create_index(f"ix_{table}_{'_'.join(columns)}", table, list(columns))
