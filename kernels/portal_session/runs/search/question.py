"""Question of a search's point for its parameters, which the portal chooses once it starts."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from typing import Any, Callable

from ...service import Service, ServiceError
from ...situation import in_thread
from .. import RunError
from ..parameters import Scalar, check_value

PATH = "session/points/ask"
PATIENCE = 300.0  # seconds: the portal may restart meanwhile, and the GPU waits
_FIRST, _LONGEST = 1.0, 15.0  # seconds between two questions
# By asking again, these do not change; others may: the portal learns of a new job after a moment.
_FINAL = frozenset({400, 404, 405, 409, 413, 422})


async def ask_parameters(
    service: Service | None,
    search: Mapping[str, Any],
    number: int,
    reason: Callable[[], str],
    patience: float = PATIENCE,
) -> dict[str, Scalar]:
    """Return the parameters of the point ``number``. ``reason``: why it is stopped, "" while it is
    not. Raises RunError if the portal does not give them for ``patience`` seconds."""
    if service is None:
        raise RunError("The portal's address is not set in this job, so it chose no parameters.")
    deadline, pause = time.monotonic() + patience, _FIRST
    while True:
        if reason():
            raise RunError(f"{reason()} before it got its parameters.")
        try:
            answer = await in_thread(service.ask, "POST", PATH, {"point": number})
            return _checked(answer, search)
        except ServiceError as error:
            wait = max(pause, error.retry_after) * random.uniform(1, 1.4)  # noqa: S311 - not a secret
            if error.status in _FINAL:
                raise RunError(f"The portal chose no parameters: {error}") from None
            if time.monotonic() + wait > deadline:
                raise RunError(
                    f"The portal chose no parameters for {patience / 60:.0f} min: {error} "
                    "Run this point again."
                ) from None
        end = time.monotonic() + wait
        while time.monotonic() < end and not reason():  # noqa: ASYNC110 - a signal's handler sets it
            await asyncio.sleep(0.2)
        pause = min(pause * 1.5, _LONGEST)


def _checked(answer: Mapping[str, Any], search: Mapping[str, Any]) -> dict[str, Scalar]:
    """Return the values of an answer. Raises RunError if others were asked for."""
    values = answer.get("parameters")
    names = [each["name"] for each in search["parameters"]]
    if not isinstance(values, dict) or set(values) != set(names):
        raise RunError("The portal's parameters are not those that the run searches.")
    return {name: check_value(name, values[name], None) for name in names}


def objective_missing(search: Mapping[str, Any], metrics: Mapping[str, float]) -> str:
    """Return a sentence if a point that has ended well has no value of what is searched for; ""
    if it has."""
    name = str(search["metric"])
    if name in metrics:
        return ""
    return (
        f"The point has no value of '{name}', the metric of the search. Log it with "
        f"portal_metrics, TensorBoard or MLflow; its last value must be a finite number."
    )
