"""Choices of a member in a space, which sets the rest. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import InvalidRequest, NotAllowed
from ..models.catalog.environment import Environment
from ..models.space import Space
from ..spaces.registry import type_of
from .fields import IN_SPACES


def check_asked(asked: Mapping[str, Any], environment: Environment, space: Space) -> None:
    """Check that ``asked`` (Asked) has only what a member of ``space`` may choose. Raises
    InvalidRequest, NotAllowed for another environment than the space's."""
    named = asked.get("environment", environment.name)
    if named != environment.name:
        raise NotAllowed(
            f"This {space.noun} uses '{environment.title}', not '{str(named)[:60]}'. Do not set "
            "the environment."
        )
    choices = IN_SPACES | type_of(space).more_choices
    for key in asked:
        if key != "environment" and key not in choices:
            raise InvalidRequest(
                f"The {space.noun} sets '{key[:60]}'. You can choose: "
                f"{', '.join(sorted(choices))}.",
                field=key[:60],
            )
