"""Column types of all tables; they hold the same on SQLite and on PostgreSQL.

Text from outside may be any Python string, but PostgreSQL refuses NUL, and neither database takes
lone surrogates. Both become U+FFFD on the way in, in conditions too.
"""

from __future__ import annotations

import math
import re
from typing import Any

from sqlalchemy import JSON, BigInteger, Column, Dialect, Double, Integer, MetaData, Table, Text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql.schema import SchemaItem
from sqlalchemy.types import TypeDecorator, TypeEngine

metadata = MetaData(
    # Constraints with names can be changed by later migrations.
    naming_convention={
        "pk": "pk_%(table_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    }
)

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def storable(text: str) -> str:
    """Return ``text`` with U+FFFD in the place of characters that a database does not take."""
    return _UNSTORABLE.sub("\ufffd", text)


class Words(TypeDecorator[str]):
    """Text, cut to ``limit`` characters (0: not cut).

    Indexed columns are cut: PostgreSQL refuses index entries beyond 2,704 bytes.
    """

    impl = Text
    cache_ok = True

    def __init__(self, limit: int = 0) -> None:
        super().__init__()
        self.limit = limit

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        if value is None:
            return None
        text = storable(str(value))
        return text[: self.limit] if self.limit else text


class Json(TypeDecorator[Any]):
    """Lists and objects as JSON."""

    impl = JSON
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> Any:
        return dialect.type_descriptor(JSONB() if dialect.name == "postgresql" else JSON())

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None  # not in JSON; PostgreSQL refuses it
    return value


NAME = Words(300)  # of a person, an environment, a job…
TEXT = Words()
TIME: Double[float] = Double()  # Unix seconds
COUNT = BigInteger()
ROW = BigInteger().with_variant(Integer(), "sqlite")  # SQLite numbers only INTEGER by itself

LARGEST_ID = 2**63 - 1  # both databases refuse larger numbers

Kind = TypeEngine[Any] | type[TypeEngine[Any]]


def keyed(name: str, *items: SchemaItem) -> Table:
    """Return a table of the portal; its primary key is among ``items``."""
    return Table(name, metadata, *items)


def numbered(name: str, *items: SchemaItem) -> Table:
    """Return a table whose rows have a number, "id", beside ``items``. The database assigns it;
    that of a deleted row is not used again."""
    number = Column("id", ROW, primary_key=True)
    return Table(name, metadata, number, *items, sqlite_autoincrement=True)


def keys(kind: Kind, *names: str, **options: Any) -> list[Column[Any]]:
    """Return columns of the primary key; ``options`` are those of Column."""
    return [Column(name, kind, primary_key=True, **options) for name in names]


def filled(kind: Kind, *names: str, **options: Any) -> list[Column[Any]]:
    """Return columns that are never NULL; ``options`` are those of Column."""
    return [Column(name, kind, nullable=False, **options) for name in names]


def optional(kind: Kind, *names: str) -> list[Column[Any]]:
    """Return columns that may be NULL."""
    return [Column(name, kind) for name in names]
