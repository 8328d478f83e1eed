"""Copy of everything in a database into another, empty one: SQLite to PostgreSQL, or back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, func, insert, select, text

from portal.errors import StoreUnavailable

from .address import WRITE, Address
from .columns import metadata
from .upgrade import HEAD, revision_of, upgrade

_AT_ONCE = 1000  # rows; a session's may have a long log


def copy(source: Address, target: Address) -> int:
    """Copy all rows in one transaction and return their number. The target's tables are created if
    they are missing. Raises StoreUnavailable, and SQLAlchemy's errors."""
    upgrade(target)
    count = 0
    with _connection(source) as old, _connection(target) as new:
        if revision_of(old) != HEAD:
            raise StoreUnavailable(
                f"The {source.place} does not have this version's tables. Run `portal database "
                "upgrade` with its address first."
            )
        for table in metadata.sorted_tables:
            if new.execute(select(table).limit(1)).first() is not None:
                raise StoreUnavailable(
                    f"The {target.place} is not empty: its table '{table.name}' has rows. Nothing "
                    "was copied."
                )
        for table in metadata.sorted_tables:
            rows = old.execution_options(yield_per=_AT_ONCE).execute(select(table)).mappings()
            for batch in rows.partitions():
                new.execute(insert(table), [dict(row) for row in batch])
                count += len(batch)
        if target.path is None:
            _count_on(new)
    return count


@contextmanager
def _connection(address: Address) -> Iterator[Connection]:
    engine = address.engine(0, 1)
    try:
        with engine.connect().execution_options(**WRITE) as connection, connection.begin():
            yield connection
    finally:
        engine.dispose()


def _count_on(connection: Connection) -> None:
    """Let PostgreSQL's sequences of row numbers go on after the largest number."""
    for table in metadata.sorted_tables:
        column = table.autoincrement_column
        if column is None:
            continue
        largest = connection.execute(select(func.max(column))).scalar_one()
        if largest is not None:
            connection.execute(
                text("SELECT setval(pg_get_serial_sequence(:table, :column), :largest)"),
                {"table": table.name, "column": column.name, "largest": largest},
            )
