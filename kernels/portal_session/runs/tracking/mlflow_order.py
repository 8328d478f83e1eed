"""Order and pages of what MLflow's client searches, as MLflow has them
(mlflow/utils/search_utils.py): what has no value is last, and NaN before that."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Callable, TypeVar

from .mlflow_values import MlflowError, text, texts, whole

_MOST_PAGE = 50_000  # items, as MLflow has it
_CLAUSE = re.compile(
    r"""\s*(?:(?P<kind>\w+)\.)?(?P<name>`[^`]+`|"[^"]+"|[^`"\s]+|run\ name)
        (?:\s+(?P<direction>asc|desc))?\s*""",
    re.IGNORECASE | re.VERBOSE,
)
_KINDS = {
    "metrics": ("metric", "metrics"),
    "params": ("param", "params", "parameter", "parameters"),
    "tags": ("tag", "tags"),
    "attributes": ("attribute", "attributes", "attr", "run"),
}
Item = TypeVar("Item")
Value = Callable[[Item, str, str], Any]


def ordered(
    items: Sequence[Item], clauses: Sequence[str], known: Mapping[str, str], value: Value[Item]
) -> list[Item]:
    """Return ``items`` in the order of ``clauses``, such as "metrics.loss DESC"; equal ones as they
    were. ``known``: attributes that can be named, with their names in `value`, which returns the
    value of an item by its kind ("metrics", "params", "tags", "attributes") and name. Raises
    MlflowError."""
    result = list(items)
    for clause in reversed(clauses):
        match = _CLAUSE.fullmatch(clause)
        kind = _kind(match["kind"]) if match else ""
        name = match["name"].strip('`"') if match else ""
        if kind == "attributes":
            name = known.get(name, "")
        if match is None or not kind or not name:
            raise MlflowError(
                f"The portal cannot order by '{clause[:100]}'. Remove it from 'order_by', or use "
                f"one of: {', '.join(known)}, metrics.NAME, params.NAME, tags.NAME."
            )
        sort(result, kind, name, value, descending=(match["direction"] or "").lower() == "desc")
    return result


def sort(items: list[Item], kind: str, name: str, value: Value[Item], *, descending: bool) -> None:
    """Sort ``items``, equal ones as they were; see `ordered`."""

    def key(item: Item) -> tuple[bool, Any]:
        found = value(item, kind, name)
        return (_rank(found) > 0) != descending, 0 if _rank(found) else found

    items.sort(key=key, reverse=descending)
    items.sort(key=lambda item: _rank(value(item, kind, name)))


def page(
    body: Mapping[str, Any], items: Sequence[Item], usual: int
) -> tuple[list[Item], dict[str, str]]:
    """Return the items of the page that ``body`` asks for, ``usual`` at most if it does not say how
    many, and the field with the next page's token. Raises MlflowError."""
    number, token = whole(body, "max_results", usual), text(body, "page_token", "")
    if not 1 <= number <= _MOST_PAGE:
        raise MlflowError(f"'max_results' must be from 1 to {_MOST_PAGE}.")
    if not re.fullmatch("[0-9]{0,9}", token):
        raise MlflowError("'page_token' must be of the page before.")
    first = int(token or 0)
    last = first + number
    return list(items[first:last]), {"next_page_token": str(last)} if last < len(items) else {}


def clauses_of(body: Mapping[str, Any]) -> list[str]:
    """Return the clauses that ``body`` orders by. Raises MlflowError."""
    return texts(body, "order_by")


def only_active(body: Mapping[str, Any], name: str) -> bool:
    """Return False if only deleted items are asked for: nothing is deleted here. Raises
    MlflowError."""
    view = text(body, name, "ACTIVE_ONLY")
    if view not in ("ACTIVE_ONLY", "DELETED_ONLY", "ALL"):
        raise MlflowError(f"'{name}' must be ACTIVE_ONLY, DELETED_ONLY or ALL.")
    return view != "DELETED_ONLY"


def _kind(prefix: str | None) -> str:
    if prefix is None:
        return "attributes"
    return next((kind for kind, names in _KINDS.items() if prefix.lower() in names), "")


def _rank(value: Any) -> int:
    if value is None:
        return 2
    return int(isinstance(value, float) and math.isnan(value))
