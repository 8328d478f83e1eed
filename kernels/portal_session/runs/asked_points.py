"""Points that the options of a run ask for, of the command line or of JupyterLab's dialog."""

from __future__ import annotations

import random
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from . import RunError, about
from .parameters import declared
from .plan import check_name, name_after
from .points import Grid, Point, make_points, read_grid, read_list, typed_points
from .search.options import points_of, read_search
from .source import Source, read_source

_TRIALS = 50  # of a search


class AskedPoints(NamedTuple):
    """Source that was read, the name of its run, the points, the ``seed`` of a sample or a search,
    and the ``search``; both None without one. ``typed``: of a script, its values as they were typed
    (`typed_points`)."""

    source: Source
    name: str
    points: list[Point]
    seed: int | None
    search: dict[str, Any] | None
    typed: list[dict[str, str]]


def read_points(options: Namespace, source: Source | None = None) -> AskedPoints:
    """Read the source and the points of these options (`command.parser`); nothing is written.
    ``source``: one that is no file yet, instead of the one that the options name. Raises RunError,
    with its field."""
    with about("source"):
        source = source or read_source(Path(options.source).expanduser())
        known = declared(source)
    with about("name"):
        name = name_after(source.path) if options.name is None else check_name(options.name)
    grid = read_grid(options.values, known)
    with about("file"):
        rows = read_list(Path(options.file).expanduser(), known) if options.file else []
    search = read_search(options, known)
    if options.seed is not None and not options.sample and not search:
        raise RunError("'--seed' requires '--sample' or '--search'.")
    seed = options.seed
    if (options.sample or search) and seed is None:
        seed = random.SystemRandom().randrange(2**31)
    if search:
        search["seed"] = seed
    with about("sample" if options.sample else ""):
        points = _points(options, search, rows, grid, seed)
    typed: list[dict[str, str]] = []
    if known is None:
        grid = read_grid(options.values, known, typed=True)
        path = Path(options.file or "").expanduser()
        rows = read_list(path, known, typed=True) if options.file else []
        typed = typed_points(points, _points(options, search, rows, grid, seed))
    return AskedPoints(source, name, points, seed, search, typed)


def _points(
    options: Namespace,
    search: dict[str, Any] | None,
    rows: Sequence[Point],
    grid: Grid,
    seed: int | None,
) -> list[Point]:
    if search:
        return points_of(search, grid, options.trials or _TRIALS)
    return make_points(rows, grid, options.sample, seed or 0)
