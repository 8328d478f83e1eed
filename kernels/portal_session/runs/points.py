"""Points of a run: a grid of values, a list from a file, both together, or a sample of a grid."""

from __future__ import annotations

import csv
import io
import json
import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import RunError, about
from .disk import read_regular
from .parameters import Declared, Scalar, check_name, check_value, read_value, written

Point = dict[str, Scalar]
Grid = Mapping[str, Sequence[Scalar]]

MOST = 10_000
LARGEST = 32 * 1024 * 1024  # bytes of a list
LARGEST_POINT = 60_000  # bytes as JSON: a script has it in one environment variable


def read_grid(
    texts: Mapping[str, str], known: Declared | None, *, typed: bool = False
) -> dict[str, list[Scalar]]:
    """Return the values by parameter of their ``texts``: "VALUE,VALUE", or a JSON list for values
    with commas. ``typed``: as texts, as they were typed. Raises RunError."""
    grid: dict[str, list[Scalar]] = {}
    for name, text in texts.items():
        with about(f"values:{name}"):
            check_name(name, known)
            grid[name] = _values(name, text.strip(), known, typed)
    return grid


def _values(name: str, text: str, known: Declared | None, typed: bool) -> list[Scalar]:
    if not text.startswith("["):
        parts = [part.strip() for part in text.split(",")]
        return [part if typed else read_value(name, part, known) for part in parts]
    values = _json(text, f"The list of '{name}'", typed)
    if not isinstance(values, list) or not values:
        raise RunError(f"The list of '{name}' is empty.")
    return [written(value) if typed else check_value(name, value, known) for value in values]


def read_list(path: Path, known: Declared | None, *, typed: bool = False) -> list[Point]:
    """Return the points of a file: CSV, whose first line has the names (an empty field leaves the
    source's own value), or JSON, a list of objects. ``typed``: values are texts, as they were
    typed. Raises RunError."""
    try:
        content = read_regular(path, LARGEST)
        if len(content) > LARGEST:
            raise RunError(f"'{path.name}' is larger than {LARGEST >> 20} MB.")
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise RunError(f"'{path}' cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise RunError(f"'{path.name}' is not UTF-8 text.") from None
    if path.suffix == ".csv":
        points = _of_csv(text, path.name, known, typed)
    elif path.suffix == ".json":
        points = _of_json(text, path.name, known, typed)
    else:
        raise RunError(f"'{path.name}' must be a .json or .csv file.")
    if not points:
        raise RunError(f"'{path.name}' has no points.")
    return points


def _of_json(text: str, file: str, known: Declared | None, typed: bool) -> list[Point]:
    return read_rows(_json(text, f"'{file}'", typed), known, f"'{file}'", typed=typed)


def read_rows(
    rows: Any, known: Declared | None, what: str = "The list of points", *, typed: bool = False
) -> list[Point]:
    """Return the points of a list of objects, which is called ``what``. ``typed``: as in
    `read_list`. Raises RunError."""
    if not isinstance(rows, list):
        raise RunError(f"{what} must be a list of objects, one for each point.")
    _check_number(len(rows))
    points = []
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise RunError(f"Entry {number} of {what} is not an object with names and values.")
        for name in row:
            check_name(name, known)
        read = written if typed else lambda value: value
        points.append({name: check_value(name, read(row[name]), known) for name in row})
    return points


def _of_csv(text: str, file: str, known: Declared | None, typed: bool) -> list[Point]:
    points: list[Point] = []
    try:
        rows = csv.reader(io.StringIO(text, newline=""), strict=True, skipinitialspace=True)
        names = [name.strip() for name in next(rows, [])]
        if len(set(names)) < len(names):
            raise RunError(f"The first line of '{file}' has the same name twice.")
        for name in names:
            check_name(name, known)
        for row in rows:
            if not row:
                continue
            if len(row) != len(names):
                raise RunError(
                    f"Line {rows.line_num} of '{file}' has {len(row)} values; its first line has "
                    f"{len(names)} names."
                )
            _check_number(len(points) + 1)
            given = {name: value.rstrip() for name, value in zip(names, row) if value.strip()}
            read = (lambda name, value, _: value) if typed else read_value
            points.append({name: read(name, given[name], known) for name in given})
    except csv.Error as error:
        raise RunError(f"'{file}' is not CSV: {error}.") from None
    return points


def make_points(rows: Sequence[Point], grid: Grid, sample: int = 0, seed: int = 0) -> list[Point]:
    """Return the points: each of ``rows`` with each combination of the grid; without both, one
    point that sets nothing. ``sample``: number of combinations of the grid, chosen by ``seed``; 0:
    all. Raises RunError."""
    total = math.prod(len(values) for values in grid.values())
    if sample:
        if rows:
            raise RunError("A sample needs a grid. A list of points is always used as a whole.")
        if not grid:
            raise RunError("There is no grid to sample. Set values first.")
        if sample > total:
            raise RunError(f"The grid has only {total:,} points; the sample has {sample:,}.")
        _check_number(sample)
        if total > 10**15:
            raise RunError("The grid is too large. Set fewer values.")
        chosen = sorted(random.Random(seed).sample(range(total), sample))  # noqa: S311
    else:
        _check_number(max(1, len(rows)) * total)
        chosen = list(range(total))
    both = {name for row in rows for name in row if name in grid}
    if both:
        raise RunError(f"'{min(both)}' is both set and in the list. Choose one.")
    points = [{**row, **_combination(grid, number)} for row in rows or [{}] for number in chosen]
    for number, point in enumerate(points):
        if len(json.dumps(point)) > LARGEST_POINT:
            raise RunError(f"Point {number} has more than {LARGEST_POINT:,} bytes. Use files.")
    if sum(len(json.dumps(point)) for point in points) > LARGEST:
        raise RunError(f"The points have more than {LARGEST >> 20} MB. Use files.")
    return points


def _combination(grid: Grid, number: int) -> Point:
    """Return a combination by its number; the values of the last parameter change first."""
    point: Point = {}
    for name in reversed(list(grid)):
        number, at = divmod(number, len(grid[name]))
        point[name] = grid[name][at]
    return {name: point[name] for name in grid}


def _check_number(number: int) -> None:
    if number > MOST:
        raise RunError(f"A run can have at most {MOST:,} points, not {number:,}. Split the run.")


def typed_points(points: Sequence[Point], texts: Sequence[Point]) -> list[dict[str, str]]:
    """Return, for each point, the ``texts`` of its values that are not how JSON writes them; []
    if there are none."""
    typed = [
        {name: str(text) for name, text in of_point.items() if text != written(point[name])}
        for point, of_point in zip(points, texts)
    ]
    return typed if any(typed) else []


def _json(text: str, what: str, typed: bool = False) -> Any:
    try:
        if typed:
            return json.loads(text, parse_float=str, parse_int=str, parse_constant=str)
        return json.loads(text)  # NaN and Infinity too: check_value refuses them by name
    except (ValueError, RecursionError):
        raise RunError(f"{what} is not JSON.") from None
