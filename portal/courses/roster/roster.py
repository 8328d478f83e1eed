"""Rosters as people have them: a pasted list of user names, or a spreadsheet's table."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from portal.errors import InvalidRequest
from portal.models.course.problem import RosterProblem
from portal.service_accounts import is_service, refusal

_MOST_LINES = 20_000
_MOST_SHOWN = 50  # problems; the last one says how many more there are
_CELL = 100  # characters of a cell that a problem repeats
# Syntax of a user name; the directory says whether there is such a person.
_NAME = re.compile(r"[a-z0-9_][a-z0-9_.@+-]{0,254}")
# Headers of the user name column in spreadsheets and registries, in lower case and without blanks
# and dashes; the first that is present counts.
_HEADS = (
    "username", "user", "login", "loginname", "uid", "userid", "account", "netid", "benutzername",
    "benutzer", "kennung", "nutzerkennung", "utilisateur", "identifiant", "usuario", "utente",
    "student", "students",
)  # fmt: skip
# Headers of other columns: any of these marks a line as a header.
_OTHERS = frozenset({
    "name", "firstname", "lastname", "surname", "givenname", "fullname", "email", "mail",
    "emailaddress", "id", "studentid", "number", "matrikelnummer", "matriculation", "vorname",
    "nachname", "nom", "prenom", "group", "course", "role",
})  # fmt: skip


class Roster(NamedTuple):
    """Roster as read. ``names``: in their order, each once and lower case; ``twice``: those that
    appeared again."""

    names: tuple[str, ...]
    twice: tuple[str, ...]
    problems: tuple[RosterProblem, ...]


def read(text: str, services: frozenset[str] = frozenset()) -> Roster:
    """Parse the user names in ``text``: one a line, or separated by commas, semicolons or blanks
    on one line; or CSV, with commas, semicolons or tabs.

    A table's column is the one whose header says "user name" or the like; without a header, the
    first. A byte order mark is skipped. Anything that is no user name, such as a spreadsheet's
    formula, is a problem with its line, and so is one of ``services``, the accounts that are no
    person's. Raises InvalidRequest if the text is too long.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if text.count("\n") > _MOST_LINES:
        raise InvalidRequest(f"A roster can have at most {_MOST_LINES} lines.", "text")
    rows, problems = _rows(text)
    names: dict[str, None] = {}
    twice: dict[str, None] = {}
    for line, cell in _cells(rows, problems):
        name = cell.lower()
        if not _NAME.fullmatch(name):
            excerpt = cell if len(cell) <= _CELL else f"{cell[:_CELL]}…"
            problems.append(RosterProblem(line=line, message=f"{excerpt!r} is not a user name."))
        elif is_service(name, services):
            problems.append(RosterProblem(line=line, message=refusal(name).message))
        elif name in names:
            twice[name] = None
        else:
            names[name] = None
    if len(problems) > _MOST_SHOWN:
        more = len(problems) - _MOST_SHOWN
        last = RosterProblem(
            line=problems[_MOST_SHOWN].line, message=f"And {more} more such lines."
        )
        problems = [*problems[:_MOST_SHOWN], last]
    return Roster(tuple(names), tuple(twice), tuple(problems))


class _Row(NamedTuple):
    line: int
    cells: list[str]


def _rows(text: str) -> tuple[list[_Row], list[RosterProblem]]:
    """Split the lines that are not empty, at the separator found in the first of them."""
    first = next((line for line in text.split("\n") if line.strip()), "")
    separator = max("\t;,", key=first.count) if set(first) & set("\t;,") else ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)
    rows: list[_Row] = []
    try:
        for cells in reader:
            stripped = [cell.strip() for cell in cells]
            if any(stripped):
                rows.append(_Row(reader.line_num, stripped))
    except csv.Error as error:  # a field of more than 128 KiB: a quote that never ends
        return rows, [
            RosterProblem(line=reader.line_num, message=f"The text is not a valid table: {error}.")
        ]
    return rows, []


def _cells(rows: Sequence[_Row], problems: list[RosterProblem]) -> Iterable[tuple[int, str]]:
    """Yield each cell that should be a user name, and its line; add ``problems`` for missing
    ones."""
    if not rows:
        return
    heads = [re.sub(r"[\s._-]", "", cell.lower()) for cell in rows[0].cells]
    column = next((heads.index(head) for head in _HEADS if head in heads), None)
    if column is None and heads in (["name"], ["names"], ["members"]):
        column = 0
    if column is not None:
        for row in rows[1:]:
            if column < len(row.cells) and row.cells[column]:
                yield row.line, row.cells[column]
            else:
                problems.append(RosterProblem(line=row.line, message="This line has no user name."))
        return
    if len(heads) > 1 and any(head in _OTHERS for head in heads):
        named = ", ".join(cell for cell in rows[0].cells if cell)[:_CELL]
        problems.append(
            RosterProblem(
                line=rows[0].line,
                message=f"None of the columns ({named}) is named 'username'. Rename the right one.",
            )
        )
        return
    widths = {len(row.cells) for row in rows}
    if len(rows) > 1 and widths == {len(heads)} and len(heads) > 1:
        # A table without a header: later columns may be family names, which are others' logins.
        message = "Only the first column was used. If another one is right, name it 'username'."
        problems.append(RosterProblem(line=rows[0].line, message=message))
        for row in rows:
            yield row.line, row.cells[0]
        return
    for row in rows:
        for cell in row.cells:
            if not cell:
                continue  # a comma at the end
            for part in _parts(cell) if len(rows) == 1 else [cell]:
                yield row.line, part


def _parts(cell: str) -> list[str]:
    """Split a list at its blanks. Names of people ("Ada Lovelace") have capitals and stay whole:
    their parts may be others' user names."""
    parts = cell.split()
    return parts if all(_NAME.fullmatch(part) for part in parts) else [cell]
