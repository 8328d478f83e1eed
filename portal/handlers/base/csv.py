"""Lists as CSV files, for spreadsheets and data frames.

UTF-8 without a byte order mark, as in RFC 4180, with a line of column names. Times are ISO 8601 in
UTC, durations seconds, memory MiB; unknown values are empty cells.
"""

from __future__ import annotations

import asyncio
import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from pydantic import BaseModel

from portal.errors import InvalidRequest

from .endpoint import Endpoint

MEDIA = "text/csv; charset=utf-8; header=present"
MOST = 100_000  # lines
_CHUNK = 50  # lines made before other requests get a turn: 3 ms
# Spreadsheets take a cell that begins like this for a formula, which can run programs and send
# data away (OWASP, "CSV Injection"; full-width characters count where they are in use). Where the
# comma is the decimal separator, a semicolon begins a new cell.
_FORMULA = re.compile(r"\A(?=[=+\-@\t\r\n＝＋－＠])|(?<=;)(?=[ ]*[=+\-@＝＋－＠])")  # noqa: RUF001

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # a terminal would obey them


class CsvEndpoint(Endpoint):
    """Base class of ``….csv``: the operation ``rows()`` returns models with the ``columns``.

    ``times`` are the columns with Unix seconds. The operation's ``media`` is ``MEDIA``.
    """

    written_by = {"get": "rows"}
    columns: tuple[str, ...]
    times: ClassVar[frozenset[str]] = frozenset()

    async def rows(self) -> Sequence[BaseModel]:
        """Return the whole list, as this person may see it."""
        raise NotImplementedError

    async def on_get(self) -> None:
        """Return the whole list as a file, with the filters of the JSON list."""
        await self.send(self.path.replace("/", "-"))

    async def send(self, name: str) -> None:
        """Write the list as a file named ``name``."""
        rows = await self.rows()
        if len(rows) > MOST:
            raise InvalidRequest(
                f"The list has {len(rows)} rows; a CSV file has at most {MOST}. Filter the list."
            )
        self.set_header("Content-Disposition", f'attachment; filename="{name}"')
        if self.request.method != "HEAD":
            for text in lines(rows, self.columns, self.times, self.value):
                self.write(text)
                await self.flush()
                await asyncio.sleep(0)  # flush() waits only for a reader that is slow
        self.finish()

    def value(self, row: Any, column: str) -> Any:
        """Return the value of a row's cell."""
        return getattr(row, column)


def lines(
    rows: Sequence[BaseModel],
    columns: Sequence[str],
    times: frozenset[str] = frozenset(),
    value: Callable[[Any, str], Any] = getattr,
) -> Iterator[str]:
    """Yield the text of a CSV file, some lines at a time."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow([cell(name) for name in columns])
    for start in range(0, max(len(rows), 1), _CHUNK):
        for row in rows[start : start + _CHUNK]:
            writer.writerow([cell(value(row, name), name in times) for name in columns])
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()


def cell(value: Any, is_time: bool = False) -> Any:
    """Return a cell's value: numbers as they are, all else as text that no spreadsheet runs."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if is_time:
        return datetime.fromtimestamp(value, UTC).isoformat(timespec="seconds")
    if isinstance(value, (int, float)):
        return value
    text = _CONTROL.sub("\ufffd", _text(value))
    return _FORMULA.sub("'", text)


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{key}:{_text(item).replace(' ', ',')}" for key, item in value.items())
    if isinstance(value, (tuple, list)):
        return " ".join(map(str, value))
    return str(value)
