"""Common parts of lists: order, pages, and search in their text."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Row, Select, Table, func, select

from portal.errors import InvalidRequest

T = TypeVar("T")
_YEAR_10000 = 253402300800
_MOST = 2**62  # both databases count to 2**63 - 1


def folded(*texts: str) -> str:
    """Return the text that a search looks into: case-folded, whatever the database's locale."""
    return "\n".join(text.casefold() for text in texts if text)


def containing(column: ColumnElement[str], text: str) -> ColumnElement[bool]:
    """Return "``column`` (made by ``folded``) contains ``text``"; ``%`` and ``_`` are literal."""
    return column.contains(text.casefold(), autoescape=True)


def moment(at: float, name: str) -> float:
    """Return a time that a database can compare with. Raises InvalidRequest."""
    try:
        number = float(at)
    except (OverflowError, ValueError):
        number = math.nan
    if math.isnan(number):
        raise InvalidRequest(f"'{name}' is not a time in Unix seconds.", name)
    return number


def instant(at: float, name: str) -> float:
    """Return a time between 1970 and the year 9999, to calculate with. Raises InvalidRequest."""
    number = moment(at, name)
    if not 0 <= number < _YEAR_10000:
        raise InvalidRequest(f"'{name}' is not a time in Unix seconds.", name)
    return number


def narrowed(
    query: Select[Any],
    table: Table,
    wanted: Mapping[str, str | None],
    time: str,
    since: float | None,
    until: float | None,
    text: str | None,
) -> Select[Any]:
    """Return ``query`` for the rows of ``table`` with the ``wanted`` values, with ``text`` in
    "search", and with ``since`` <= ``time`` < ``until``; None: any. Raises InvalidRequest."""
    for name, value in wanted.items():
        if value is not None:
            query = query.where(table.c[name] == value)
    if text:
        query = query.where(containing(table.c.search, text))
    if since is not None:
        query = query.where(table.c[time] >= moment(since, "since"))
    if until is not None:
        query = query.where(table.c[time] < moment(until, "until"))
    return query


def order_by(table: Table, sort: str, columns: Mapping[str, ColumnElement[Any]]) -> list[Any]:
    """Return the clauses for ``sort``: a name of ``columns``, with "-" before it for descending
    order; the primary key breaks ties. Raises InvalidRequest for other names."""
    name = sort.removeprefix("-")
    if name not in columns:
        known = ", ".join(columns)
        raise InvalidRequest(
            f"This list cannot be sorted by '{name[:50]}'. Choose one of: {known}.", "sort"
        )
    down = sort.startswith("-")
    chosen = [columns[name], *table.primary_key.columns]
    clauses = [column.desc() if down else column.asc() for column in chosen]
    if getattr(columns[name], "nullable", True):
        clauses[0] = clauses[0].nulls_last()  # the databases disagree about where they go
    return clauses


def one_page(
    connection: Connection,
    query: Select[Any],
    order: list[Any],
    offset: int,
    limit: int,
    convert: Callable[[Row[Any]], T],
) -> tuple[list[T], int]:
    """Return one page, ``convert`` of each row from ``offset`` on, at most ``limit``; and the total
    number of rows."""
    total = connection.execute(select(func.count()).select_from(query.subquery())).scalar_one()
    offset, limit = min(max(offset, 0), _MOST), min(max(limit, 0), _MOST)
    rows = connection.execute(query.order_by(*order).offset(offset).limit(limit))
    return [convert(row) for row in rows], total
