"""An environment as it may be launched: narrowed to what is known to work."""

from __future__ import annotations

from .environment import Environment


class OfferedEnvironment(Environment):
    """``refusals``: GPU types of the cluster that it may not have, each with a sentence why."""

    refusals: dict[str, str] = {}


def refusals_of(environment: Environment) -> dict[str, str]:
    """Why it may not have GPUs of some types, by type; empty for what is not narrowed."""
    return environment.refusals if isinstance(environment, OfferedEnvironment) else {}
