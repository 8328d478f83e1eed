"""Environments as offered for launch: narrowed to what is known to work."""

from __future__ import annotations

from .environment import Environment


class OfferedEnvironment(Environment):
    """Environment as offered for launch. ``refusals``: GPU types of the cluster that it may not
    have, each with a sentence why."""

    refusals: dict[str, str] = {}


def refusals_of(environment: Environment) -> dict[str, str]:
    """Return why it may not have GPUs of some types, by type; empty if it is not narrowed."""
    return environment.refusals if isinstance(environment, OfferedEnvironment) else {}
