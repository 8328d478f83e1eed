"""The tables of GPU time, and how a batch gets into them.

A job's properties are in ``usage_jobs`` once, its groups in ``usage_groups``, its GPU-seconds in
``usage_days``, one row for each UTC day. A large cluster writes ten thousand rows a minute: so
each kind of statement is given all its rows at once.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    ForeignKey,
    Index,
    UniqueConstraint,
    bindparam,
    delete,
    insert,
    select,
    update,
)

from portal.errors import InvalidRequest
from portal.models.session.usage import JobUsage

from ..engine.columns import COUNT, NAME, ROW, TIME, Json, filled, keyed, keys, optional, storable
from ..engine.database import Database
from ..engine.listing import instant

JobKey = tuple[str, int]  # job_id, submitted_at

jobs = keyed(
    "usage_jobs",
    Column("id", ROW, primary_key=True),
    *filled(NAME, "job_id", "user", "account", "environment", "course", "session_id"),
    *filled(COUNT, "submitted_at", "gpus"),
    *filled(Json, "groups"),
    *optional(TIME, "accounted_until"),  # None: nothing yet
    *filled(COUNT, "closed"),  # 1: nothing will be added
    UniqueConstraint("job_id", "submitted_at"),
    Index(None, "closed"),
    Index(None, "session_id"),
    Index(None, "user"),
    Index(None, "course"),
)
space_column = jobs.c.course
groups = keyed(
    "usage_groups",
    Column("job", ROW, ForeignKey("usage_jobs.id"), primary_key=True),
    *keys(NAME, "name"),
)
days = keyed(
    "usage_days",
    *keys(NAME, "day"),  # "2026-11-21"
    Column("job", ROW, ForeignKey("usage_jobs.id"), primary_key=True),
    *filled(NAME, "week"),  # "2026-W47": SQLite 3.40 cannot tell it
    *filled(TIME, "held", "used", "measured"),
    Index(None, "job"),
)

_WORDS = ("user", "account", "environment", "course", "session_id")
_AT_ONCE = 5000  # values of one IN (…)


def write(
    database: Database,
    to: Connection,
    rows: Sequence[JobUsage],
    until: Mapping[JobKey, float],
    closed: Collection[JobKey],
) -> None:
    """Add ``rows`` to what is there, and record the marks. Raises InvalidRequest for a wrong day
    or time; the caller must give up the transaction then."""
    facts = _facts(rows)
    keys = {*facts, *map(_key, until), *map(_key, closed)}
    known = _known(to, keys)
    new = [_values(key, facts.get(key, {})) for key in keys if key not in known]
    if new:
        to.execute(insert(jobs), new)
    for key, values in facts.items():
        if key in known:
            _complete(to, known[key], values)
    ids = {key: row.id for key, row in known.items()}
    ids |= {key: row.id for key, row in _known(to, keys - known.keys()).items()}
    named = [
        {"job": ids[key], "name": name}
        for key in keys - known.keys()
        for name in facts.get(key, {}).get("groups", ())
    ]
    if named:
        to.execute(insert(groups), named)
    _add_days(database, to, rows, ids)
    if until:
        mark = update(jobs).where(jobs.c.id == bindparam("job"))
        to.execute(
            mark.values(accounted_until=bindparam("mark")),
            [{"job": ids[_key(key)], "mark": instant(at, "until")} for key, at in until.items()],
        )
    for chunk in _chunks([ids[_key(key)] for key in closed]):
        to.execute(update(jobs).where(jobs.c.id.in_(chunk)).values(closed=1))


def _key(key: JobKey) -> JobKey:
    return storable(key[0])[:300], key[1]


def _facts(rows: Iterable[JobUsage]) -> dict[JobKey, dict[str, Any]]:
    """Return the properties of each job from all its rows; empty strings say nothing."""
    facts: dict[JobKey, dict[str, Any]] = {}
    for row in rows:
        values = facts.setdefault(_key((row.job_id, row.submitted_at)), {})
        for name in _WORDS:
            if word := getattr(row, name):
                values[name] = storable(word)[:300]
        if row.groups:
            values["groups"] = sorted({storable(name)[:300] for name in row.groups})
        values["gpus"] = max(row.gpus, values.get("gpus", 0))
    return facts


def _values(key: JobKey, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return a new row of ``usage_jobs``."""
    empty = dict.fromkeys(_WORDS, "") | {"groups": [], "gpus": 0, "closed": 0}
    return empty | {"job_id": key[0], "submitted_at": key[1]} | dict(facts)


def _known(to: Connection, keys: Collection[JobKey]) -> dict[JobKey, Any]:
    columns = [jobs.c[name] for name in ("id", "job_id", "submitted_at", "groups", "gpus", *_WORDS)]
    rows = {}
    for chunk in _chunks(sorted({job_id for job_id, _ in keys})):
        for row in to.execute(select(*columns).where(jobs.c.job_id.in_(chunk))):
            if (key := (row.job_id, row.submitted_at)) in keys:
                rows[key] = row
    return rows


def _complete(to: Connection, row: Any, facts: Mapping[str, Any]) -> None:
    """Update a job's row: its properties may be learnt later than that it exists."""
    changed = {name: value for name, value in facts.items() if value != getattr(row, name)}
    if changed.get("gpus", row.gpus) < row.gpus:
        del changed["gpus"]
    if changed:
        to.execute(update(jobs).where(jobs.c.id == row.id).values(changed))
    if "groups" in changed:
        to.execute(delete(groups).where(groups.c.job == row.id))
        to.execute(insert(groups), [{"job": row.id, "name": name} for name in changed["groups"]])


def _add_days(
    database: Database, to: Connection, rows: Iterable[JobUsage], ids: Mapping[JobKey, int]
) -> None:
    added = [
        {
            "job": ids[_key((row.job_id, row.submitted_at))],
            "day": row.day,
            "week": _week(row.day),
            "held": row.held,
            "used": row.used,
            "measured": row.measured,
        }
        for row in rows
    ]
    if added:
        statement = database.insert(days)
        sums = {
            name: days.c[name] + statement.excluded[name] for name in ("held", "used", "measured")
        }
        to.execute(statement.on_conflict_do_update(index_elements=["day", "job"], set_=sums), added)


def _week(day: str) -> str:
    try:
        date = datetime.date.fromisoformat(day)
        if date.isoformat() != day:
            raise ValueError
    except ValueError:
        raise InvalidRequest(f"'{day[:50]}' is not a date such as 2026-11-21.", "day") from None
    year, week, _ = date.isocalendar()
    return f"{year}-W{week:02}"


def _chunks(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(values), _AT_ONCE):
        yield values[start : start + _AT_ONCE]
