"""Points that a request for a run asks for."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from . import RunError, about
from .parameters import Declared, declared
from .plan import check_name, name_after
from .points import Grid, Point, make_points, read_grid, read_list, read_rows, typed_points
from .request import RunRequest
from .search.options import points_of, read_search
from .source import Source, read_source, with_first_cell

_TRIALS = 50  # of a search


class AskedPoints(NamedTuple):
    """Source that was read, the name of its run, and its points."""

    source: Source
    name: str
    points: list[Point]
    seed: int | None  # of a sample or a search; None without one
    search: dict[str, Any] | None  # None without one
    typed: list[dict[str, str]]  # of a script, its values as they were typed (`typed_points`)


def read_points(request: RunRequest, source: Source | None = None) -> AskedPoints:
    """Read the source and the points of a request; nothing is written. ``source``: one that is no
    file yet, instead of the one that the request names. Raises RunError, with its field."""
    with about("source"):
        source = source or read_source(request.source)
        if request.first_cell:
            source = with_first_cell(source)
        known = declared(source)
    with about("name"):
        name = name_after(source.path) if request.name is None else check_name(request.name)
    grid = read_grid(request.values, known)
    with about("file"):
        rows = _rows(request, known)
    search = read_search(request, known)
    if request.seed is not None and not request.sample and not search:
        raise RunError("'--seed' requires '--sample' or '--search'.")
    seed = request.seed
    if (request.sample or search) and seed is None:
        seed = random.SystemRandom().randrange(2**31)
    if search:
        search["seed"] = seed
    with about("sample" if request.sample else ""):
        points = _points(request, search, rows, grid, seed)
    typed: list[dict[str, str]] = []
    if known is None:
        grid = read_grid(request.values, known, typed=True)
        rows = _rows(request, known, typed=True)
        typed = typed_points(points, _points(request, search, rows, grid, seed))
    return AskedPoints(source, name, points, seed, search, typed)


def _rows(request: RunRequest, known: Declared | None, *, typed: bool = False) -> list[Point]:
    if request.rows:
        return read_rows(list(request.rows), known, typed=typed)
    return read_list(request.file, known, typed=typed) if request.file else []


def _points(
    request: RunRequest,
    search: dict[str, Any] | None,
    rows: Sequence[Point],
    grid: Grid,
    seed: int | None,
) -> list[Point]:
    if search:
        return points_of(search, grid, request.trials or _TRIALS)
    return make_points(rows, grid, request.sample, seed or 0)
