"""Last choice of a person, and defaults where nothing was chosen. Pure.

All values are typed, as in a request: "environment" and the fields of a session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from portal.errors import InvalidRequest
from portal.launch.fields import FIELDS
from portal.launch.request import Asked
from portal.models.catalog.environment import Environment
from portal.models.session.resources import Resources


def whole(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def chosen_environment(
    environments: Sequence[Environment], last: Mapping[str, Any]
) -> Environment | None:
    for environment in environments:
        if environment.name == last.get("environment"):
            return environment
    return environments[0] if environments else None


def well_formed(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the last session's ``user_options``; {} if an older portal wrote them otherwise."""
    try:
        asked = Asked.parse(options or {})
        return {**asked.given(), **({"kind": asked.kind.name} if asked.kind.offered else {})}
    except InvalidRequest:
        return {}


def asked(
    last: Mapping[str, Any],
    usual: Mapping[str, Any],
    automatic: Callable[[Resources], str | None],
) -> dict[str, Any]:
    """Return the part of ``last`` that was somebody's own choice.

    A launch stores complete options. Those that equal the default are left out again, or the
    default CPUs of one environment, or a GPU partition, would stick to the next session's choice.
    """
    own = {
        key: value
        for key, value in last.items()
        if key in ("environment", "kind", "gpus", "gpu_type", "time") or value != usual.get(key)
    }
    resources = {k: v for k, v in last.items() if k not in ("environment", "kind", "partition")}
    if "partition" in own and own["partition"] == automatic(Resources(**resources)):
        del own["partition"]
    return own


def within(linked: Mapping[str, Any], gpus: int, seconds: int | None) -> dict[str, Any]:
    """Return a link's options without more GPUs or a longer time (None: no limit) than there is:
    the nearest would be more than anybody has chosen."""
    limits = {"gpus": gpus, "time": seconds}
    return {
        key: value
        for key, value in linked.items()
        if (most := limits.get(key)) is None or value <= most
    }


def folded_chosen(last: Mapping[str, Any]) -> bool:
    """Return True if ``last`` holds a choice that the page keeps under "More"."""
    folded = [field.name for field in FIELDS if field.folded]
    return any(last.get(name) and (name != "nodes" or last[name] > 1) for name in folded)


def preset(
    environment: Environment | None, defaults: Resources | None, last: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the defaults where nothing else is chosen, in the order of the launch policy."""
    site = defaults.given() if defaults else {}
    own = environment.default.given() if environment else {}
    remembered = {key: last[key] for key in ("gpus", "time") if key in last}
    return {**site, **own, **remembered}
