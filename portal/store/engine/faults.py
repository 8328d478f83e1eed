"""Errors of a database in words: no SQL, no values, no password."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from portal.errors import StoreUnavailable

_LATER = "Try again in a moment."
_ADMIN = "An admin can find the reason with `portal doctor --only=database`."


@dataclass(frozen=True)
class Fault:
    """Fault of a database."""

    what: str  # it does or is
    out: str = _ADMIN  # the way out
    away: bool = False  # it gave no answer at all, so an immediate retry would only wait again
    schema: bool = False  # tables are missing

    def error(self) -> StoreUnavailable:
        return StoreUnavailable(f"The portal's database {self.what}. {self.out}")


SILENT = Fault("does not answer", _LATER, away=True)
NO_SCHEMA = Fault(
    "does not have the tables of this version of the portal",
    "An admin can create them with `portal database upgrade`.",
    schema=True,
)
FULL = Fault(
    "accepts no changes: its disk is full",
    "Running sessions continue. An admin must free space; `portal doctor --only=disk,database` "
    "shows where.",
)

# PostgreSQL's codes: its manual, appendix A. Their first two characters are the class.
_STATES = {
    "57014": Fault("took too long to answer", _LATER),
    "57P": Fault("is starting or stopping", _LATER),
    "53300": Fault("has too many connections", _LATER),
    "53100": FULL,
    "53": Fault("has no space or memory left"),
    "28": Fault("does not accept the portal's login"),
    "3D": Fault("does not exist on its server"),
    "42501": Fault("does not let the portal's account use its tables"),
    "42P01": NO_SCHEMA,
    "42703": NO_SCHEMA,
    "25006": Fault("is read-only at the moment"),
    "40": Fault("was too busy", _LATER),
    "55P03": Fault("is locked by another process", _LATER),
    "08": SILENT,
}

# Words of SQLite (sqlite.org/rescode.html), and of PostgreSQL before there is a connection, when
# there is no code.
_WORDS = (
    (r"database (table )?is locked", Fault("is locked by another process", _LATER)),
    (r"not a database|malformed|corrupt", Fault("is damaged, or its file is not a database")),
    (r"readonly|read-only", Fault("is read-only: its file or its folder is not writable")),
    (r"unable to open", Fault("cannot be opened: its file is missing or not readable")),
    (r"disk is full", FULL),
    (r"disk I/O", Fault("has no space left, or its disk has an error")),
    (r"no such (table|column)|has no column", NO_SCHEMA),
    (r"authentication failed|no password supplied|pg_hba|role .* does not exist", _STATES["28"]),
    (r"database .* does not exist", _STATES["3D"]),
    (r"starting up|shutting down|recovery mode", _STATES["57P"]),
    (r"too many (clients|connections)|remaining connection slots", _STATES["53300"]),
)


def fault_of(error: Exception) -> Fault | None:
    """Return the fault that SQLAlchemy's ``error`` means; None if it is no fault of the database
    but of a statement or a value."""
    if isinstance(error, PoolTimeout):
        return SILENT
    if not isinstance(error, DBAPIError):
        return None
    state = str(getattr(error.orig, "sqlstate", None) or "")
    for length in (5, 3, 2):
        if fault := _STATES.get(state[:length]):
            return fault
    if state:
        return None
    message = str(error.orig)
    for pattern, fault in _WORDS:
        if re.search(pattern, message, re.I):
            return fault
    kind = type(error.orig).__name__
    lost = kind in ("OperationalError", "InterfaceError") or error.connection_invalidated
    return SILENT if lost else None
