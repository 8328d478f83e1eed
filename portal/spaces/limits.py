"""Limits of a space: its environment, narrowed to what its sessions may have. Pure."""

from __future__ import annotations

from typing import Any, TypeVar

from ..models.catalog.environment import Environment
from ..models.session.resources import Duration, Resources
from ..models.space import Space

_Size = TypeVar("_Size", bound=int)


def narrowed(environment: Environment, space: Space, *, gpus: bool = True) -> Environment:
    """Return ``environment`` as the space allows it: with the space's own default, and nothing
    larger than its ``largest``. ``gpus`` False: none at all, the budget is used up."""
    default, largest = space.default, space.largest
    types, most = environment.gpu_types, max(default.gpus, largest.gpus) if gpus else 0
    if largest.gpu_type and largest.gpu_type in (types or (largest.gpu_type,)):
        types = (largest.gpu_type,)
    elif largest.gpu_type:
        most = 0  # it does not run on the only GPUs that the space may have
    usual = _usual(environment.default, {"gpus", "nodes", "reservation", "account"})
    usual |= _usual(default, {"account", "reservation"})
    usual["gpus"] = min(default.gpus, most)
    account = space.account or default.account
    if account:
        usual["account"] = account
    if not usual["gpus"] or (types and usual.get("gpu_type") not in types):
        usual.pop("gpu_type", None)
    return environment.model_copy(
        update={
            "title": f"{space.title}: {environment.title}"[:120],
            "default": Resources(**usual),
            "gpu_types": types,
            "max_gpus": _least(environment.max_gpus, most),
            "max_cpus": _least(environment.max_cpus, largest.cpus),
            "max_memory": _least(environment.max_memory, largest.memory),
            "max_time": _least(environment.max_time, largest.time),
        }
    )


def _usual(resources: Resources, without: set[str]) -> dict[str, Any]:
    """Return all fields that are not None, typed: no GPUs in a space's default mean "no GPUs"."""
    return {k: v for k, v in resources if v is not None and k not in without}


def until(environment: Environment, seconds: float) -> Environment:
    """Return ``environment`` for a session that must be over in ``seconds``, a minute at least."""
    minutes = max(1, int(seconds // 60))
    return environment.model_copy(
        update={"max_time": _least(environment.max_time, Duration(minutes * 60))}
    )


def _least(first: _Size | None, second: _Size | None) -> _Size | None:
    return min((size for size in (first, second) if size is not None), default=None)
