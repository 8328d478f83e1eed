"""Request for a run: what JupyterLab's dialog sends as JSON, and ``portal-run`` makes of its
options. `start` starts it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..chosen_id import is_id
from . import RunError, about

AT_ONCE = 10  # points, by default
# Least and most of the numbers of a request.
LIMITS = {
    "sample": (1, 10_000),
    "seed": (0, 2**63 - 1),
    "trials": (1, 1_000),
    "at_once": (1, 1_000),
    "resumes": (0, 1_000),
    "ranks": (1, 256),
}
_NUMBERS = ("sample", "seed", "at_once", "ranks")  # of the dialog
_LONGEST = 1000  # characters of a path or name
_LONGEST_VALUES = 10_000  # characters of the values of a parameter
_MOST = 200  # parameters
# Names in what the portal is asked for that are no resources.
_OF_RUN = frozenset(
    {"id", "name", "source", "folder", "points", "code_digest", "at_once", "keep_failed"}
    | {"resumes", "ranks", "environment", "search", "after", "notify", "project"}
)


class RunRequest(NamedTuple):
    """Requested run of the notebook or script ``source``.

    ``id``: "" for a new one. ``name``: None for the file's. ``first_cell``: the first code cell of
    a notebook without a cell of parameters has them; its copy gets the tag. ``values``: text by
    parameter, "0.1, 0.01" or a JSON list; several make a grid. ``file``: path of a list of points;
    ``rows``: the points themselves.
    ``sample``: number of points of the grid, chosen at random by ``seed``; 0: all. ``ranges``:
    NAME=RANGE of a search, of ``trials`` points, which ``maximize`` or ``minimize`` a metric.
    ``at_once``, ``keep_failed``, ``resumes``, ``ranks``: as the portal takes them. ``after``: name
    or id of a run; ``notify``: events. ``environment``, ``kernel``: "" for the session's and the
    notebook's; ``project`` that the run is for: "" for the session's. ``resources`` of each point,
    by name: the portal alone judges them.
    """

    source: Path
    id: str = ""
    name: str | None = None
    first_cell: bool = False
    values: Mapping[str, str] = {}
    file: Path | None = None
    rows: Sequence[Any] = ()
    sample: int = 0
    seed: int | None = None
    ranges: Sequence[str] = ()
    trials: int | None = None
    maximize: str | None = None
    minimize: str | None = None
    at_once: int = AT_ONCE
    keep_failed: bool = False
    after: str | None = None
    notify: Sequence[str] = ()
    resumes: int = 0
    ranks: int = 0
    environment: str | None = None
    kernel: str | None = None
    project: str = ""
    resources: Mapping[str, Any] = {}


def source_path(asked: Any, root: Path) -> Path:
    """Return the path of a source that JupyterLab names: relative to ``root``, the server's folder.
    Raises RunError."""
    with about("source"):
        path = _text(asked, "The notebook or script").strip("/")
        if not path or ".." in path.split("/"):
            raise RunError("The path of the notebook or script cannot be used.")
    return root / path


def read_request(body: Mapping[str, Any], source: Path) -> RunRequest:
    """Return the request in the body of the dialog: it has the fields of a RunRequest that the
    dialog shows; null and "" are unset, and ``file`` is relative to the source's folder.
    ``source``: the absolute path of the notebook or script. Raises RunError, with its field."""
    asked: dict[str, Any] = {"first_cell": body.get("first_cell") is True}
    for field in ("name", "environment", "after", "file", "project", *_NUMBERS):
        if body.get(field) not in (None, ""):
            with about(field):
                asked[field] = _read(field, body[field], source)
    with about("id"):
        if (id := body.get("id") or "") and not is_id(id):
            raise RunError("The id of the run cannot be used. Reload the page.")
    with about("rows"):
        rows = body.get("rows") or []
        if not isinstance(rows, list) or (rows and body.get("file")):
            raise RunError("'rows' must be a list of points, instead of a file.")
    return RunRequest(
        source,
        rows=tuple(rows),
        id=id,
        values=_values(body.get("values")),
        resources=_resources(body),
        **asked,
    )


def whole(value: Any, least: int, most: int) -> int:
    """Return a whole number from ``least`` to ``most``, which may be written as text. Raises
    ValueError with the end of a sentence."""
    text = "" if isinstance(value, bool) else str(value)
    if not text.isdecimal() or len(text) > 20 or not least <= int(text) <= most:
        raise ValueError(f"must be a whole number from {least} to {most}")
    return int(text)


def _read(field: str, value: Any, source: Path) -> Any:
    if field in LIMITS:
        try:
            return whole(value, *LIMITS[field])
        except ValueError as error:
            raise RunError(f"{str(error).capitalize()}.") from None
    if field != "file":
        return _text(value, "The name")
    path = _text(value, "The list of points")
    try:
        return source.parent / Path(path).expanduser()
    except RuntimeError:
        raise RunError(f"There is no file '{path}'. Check the path.") from None


def _values(values: Any) -> dict[str, str]:
    """Return the parameters that have values."""
    with about("values"):
        if not isinstance(values or {}, dict) or len(values or {}) > _MOST:
            raise RunError(f"'values' must be an object with at most {_MOST} names.")
    named = {}
    for name, text in (values or {}).items():
        with about(f"values:{name}"):
            if not isinstance(text, str) or len(text) > _LONGEST_VALUES:
                raise RunError(f"The values of '{name[:100]}' are longer than {_LONGEST_VALUES:,}.")
        if text.strip():
            named[name] = text
    return named


def _resources(body: Mapping[str, Any]) -> dict[str, Any]:
    resources = body.get("resources") or {}
    with about("resources"):
        if not isinstance(resources, dict):
            raise RunError("'resources' must be an object.")
        for name in _OF_RUN & resources.keys():
            raise RunError(f"'{name}' is not a resource. Remove it.")
    return {name: value for name, value in resources.items() if value not in (None, "")}


def _text(value: Any, what: str) -> str:
    """Return a text that can be a path or a name. Raises RunError."""
    if not isinstance(value, str) or not value.isprintable() or len(value) > _LONGEST:
        raise RunError(f"{what} must be a string of at most {_LONGEST:,} printable characters.")
    return value
