"""Options of portal-run by which a run searches its parameters."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Callable

from .. import RunError
from ..parameters import Declared
from ..points import Grid, Point
from ..request import RunRequest
from .ranges import read_ranges

_LONGEST_NAME = 100  # characters of a metric's name
_MOST_PARAMETERS = 50


def add_options(options: argparse.ArgumentParser, whole: Callable[[str], Any]) -> None:
    """Add the options. ``whole`` makes a reader of whole numbers for a field of the request."""
    options.add_argument(
        "--search",
        dest="ranges",
        metavar="NAME=RANGE",
        action="append",
        default=[],
        help="range of a parameter whose values are chosen from the results so far: log(LOW,HIGH), "
        "uniform(LOW,HIGH), int(LOW,HIGH), logint(LOW,HIGH) or [VALUE,VALUE]",
    )
    options.add_argument(
        "--trials", type=whole("trials"), help="number of points of a search; 50 by default"
    )
    options.add_argument("--maximize", metavar="METRIC", help="metric to maximize in a search")
    options.add_argument("--minimize", metavar="METRIC", help="metric to minimize in a search")


def read_search(request: RunRequest, known: Declared | None) -> dict[str, Any] | None:
    """Return the search of a request, as the portal takes it, but for its seed; None without one.
    Raises RunError."""
    metrics = {"maximize": request.maximize, "minimize": request.minimize}
    given = {direction: name for direction, name in metrics.items() if name is not None}
    if not request.ranges:
        if given or request.trials is not None:
            raise RunError("'--trials', '--maximize' and '--minimize' require '--search'.")
        return None
    if len(given) != 1:
        raise RunError("A search needs either '--maximize METRIC' or '--minimize METRIC'.")
    if request.file or request.sample:
        raise RunError("A search chooses its points itself. Remove '--list' and '--sample'.")
    ((direction, metric),) = given.items()
    if not 0 < len(metric) <= _LONGEST_NAME or not metric.isprintable():
        raise RunError(f"The name of a metric has 1 to {_LONGEST_NAME} characters.")
    ranges = read_ranges(request.ranges, known)
    if len(ranges) > _MOST_PARAMETERS:
        raise RunError(f"A search has at most {_MOST_PARAMETERS} parameters.")
    return {"parameters": ranges, "metric": metric, "direction": direction}


def points_of(search: Mapping[str, Any], grid: Grid, trials: int) -> list[Point]:
    """Return the points of a search before it has chosen anything: they have the values that are
    the same for all. Raises RunError."""
    searched = {each["name"] for each in search["parameters"]}
    for name, values in grid.items():
        if name in searched:
            raise RunError(f"'{name}' is both set and searched. Choose one.")
        if len(values) != 1:
            raise RunError(
                f"'{name}' has {len(values)} values. In a search, set one value, or search it: "
                f"--search '{name}=[…]'."
            )
    return [{name: values[0] for name, values in grid.items()} for _ in range(trials)]
