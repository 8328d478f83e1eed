"""Values in the bodies of MLflow's calls: they are checked where they enter."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping
from typing import Any, Callable

MOST = 10_000  # runs, experiments, models, and names of one of them
_LONGEST_NAME = 250  # characters, as MLflow has it
_LONGEST = 8_000  # characters of a value
_NOTHING = (None, "", [], {}, False)


class MlflowError(Exception):
    """Refused call: a sentence, MLflow's ``code`` and the HTTP ``status``."""

    def __init__(self, message: str, code: str = "INVALID_PARAMETER_VALUE", status: int = 400):
        super().__init__(message)
        self.code, self.status = code, status


def check_arguments(path: str, body: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise MlflowError if ``body`` says something that is not ``known``: it would be lost."""
    for name, value in body.items():
        if name not in known and value not in _NOTHING:
            raise MlflowError(f"The portal does not know the argument '{name[:50]}' of '{path}'.")


def items(body: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Return a list of objects; [] if it is not there. Raises MlflowError."""
    listed = body.get(name) or []
    if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
        raise MlflowError(f"'{name}' must be a list of objects.")
    return listed


def texts(body: Mapping[str, Any], name: str) -> list[str]:
    """Return a list of texts; [] if it is not there. Raises MlflowError."""
    listed = body.get(name) or []
    listed = [listed] if isinstance(listed, str) else listed  # one, in a query
    if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
        raise MlflowError(f"'{name}' must be a list of strings.")
    return listed


def named(item: Mapping[str, Any], read: Callable[..., str]) -> tuple[str, str]:
    """Return the key and the value of an item; ``read`` reads the latter. Raises MlflowError."""
    name = text(item, "key")
    if len(name) > _LONGEST_NAME:
        raise MlflowError(f"The name '{name[:50]}…' has more than {_LONGEST_NAME} characters.")
    return name, read(item, "value", "")


def metric_of(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return a metric as MLflow's API has it. Raises MlflowError for what is no number."""
    name, _ = named(item, lambda *_: "")
    value = item.get("value", 0.0)
    try:
        # Protocol buffers write NaN and infinity as text.
        number = float(value) if isinstance(value, (int, float, str)) else None
    except (ValueError, OverflowError):
        number = None
    if number is None:
        raise MlflowError(f"The value of the metric '{name[:100]}' must be a number.")
    owners = {owner: text(item, owner) for owner in ("model_id", "dataset_name", "dataset_digest")
              if item.get(owner)}  # fmt: skip
    return {
        "key": name,
        "value": value if math.isfinite(number) else shown_number(number),
        "timestamp": whole(item, "timestamp", now()),
        "step": whole(item, "step", 0),
        **owners,
    }


def shown_number(number: float) -> float | str:
    """Return a number as protocol buffers write it in JSON."""
    if math.isfinite(number):
        return number
    return {"inf": "Infinity", "-inf": "-Infinity"}.get(str(number), "NaN")


def is_newer(metric: Mapping[str, Any], before: Mapping[str, Any] | None) -> bool:
    """Return True if a metric's value counts instead of the one ``before``: its step is later, or
    its time, or it is larger, as MLflow has it. The last NaN counts as the smallest."""
    return before is None or _age(metric) >= _age(before)


def _age(metric: Mapping[str, Any]) -> tuple[int, int, float]:
    value = float(metric["value"])
    return metric["step"], metric["timestamp"], -math.inf if math.isnan(value) else value


def pairs(values: Mapping[str, str]) -> list[dict[str, str]]:
    """Return texts by name as MLflow's API has them."""
    return [{"key": name, "value": value} for name, value in values.items()]


def text(
    body: Mapping[str, Any], name: str, default: str | None = None, longest: int = _LONGEST
) -> str:
    """Return a text; without a ``default``, it must be there. Raises MlflowError."""
    value = body.get(name, default)
    if not isinstance(value, str) or len(value) > longest:
        raise MlflowError(f"'{name}' must be a string of at most {longest:,} characters.")
    return value


def whole(body: Mapping[str, Any], name: str, default: int) -> int:
    """Return a whole number, which protocol buffers write as text. Raises MlflowError."""
    value = body.get(name, default)
    try:
        number = int(value) if isinstance(value, (int, str)) else None
    except ValueError:
        number = None
    if number is None or abs(number) >= 2**63:
        raise MlflowError(f"'{name}' must be a whole number.")
    return number


def check_number(number: int, what: str) -> None:
    """Raise MlflowError if ``number`` exceeds the limit."""
    if number >= MOST:
        raise MlflowError(f"A point has at most {MOST:,} {what}.")


def now() -> int:
    """Return the moment, in Unix milliseconds as MLflow's API has it."""
    return int(time.time() * 1000)


def missing(sentence: str) -> MlflowError:
    """Return the error about something that is not there."""
    return MlflowError(sentence, "RESOURCE_DOES_NOT_EXIST", 404)
