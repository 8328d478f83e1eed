"""Model of the catalog, as its YAML file defines it."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Annotated

from pydantic import Field, StringConstraints, field_validator

from portal.models import Frozen
from portal.models.catalog.environment import MAX_DESCRIPTION
from portal.models.catalog.environment import Name as EnvironmentName
from portal.models.session.resources import Resources

from ..bodies import Example, RequestPath, StartFolder
from ..models import Command, HealthPath, RequestLimits, exposed

MODEL = r"[a-z0-9](?:[a-z0-9-]{0,28}[a-z0-9])?"  # with the prefix of tests, the name of an endpoint
_SHAPE = re.compile(MODEL)
_Group = Annotated[str, StringConstraints(min_length=1, max_length=255)]


class CatalogModel(Frozen):
    """Entry of the catalog of models; a YAML file of it has these keys.

    ``folder``: where the command starts, such as that of the weights. ``example``: the request of
    its test, which every replica answers before it gets others. ``resources``: of one replica, as
    for a launch. ``groups`` of the Hub that may see it; none: everyone. ``untested``: a note that
    nobody has run this entry as it is delivered, and what is to be filled in.
    """

    name: str
    title: Annotated[str, StringConstraints(min_length=1, max_length=120)]
    description: Annotated[str, StringConstraints(max_length=MAX_DESCRIPTION)] = ""  # Markdown
    licence: Annotated[str, StringConstraints(max_length=200)] = ""
    environment: EnvironmentName
    command: Command
    folder: StartFolder = "~"
    health: HealthPath = "/health"
    paths: Annotated[tuple[RequestPath, ...], Field(max_length=50)] = ()
    example: Example
    resources: Resources = Resources()
    limits: RequestLimits = RequestLimits()
    groups: Annotated[tuple[_Group, ...], Field(max_length=100)] = ()
    untested: Annotated[str, StringConstraints(max_length=1000)] = ""

    @field_validator("name")
    @classmethod
    def _short(cls, value: str) -> str:
        if not _SHAPE.fullmatch(value):
            raise ValueError("must be at most 30 lowercase letters, digits and dashes")
        return value

    @field_validator("command")
    @classmethod
    def _closed_to_others(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if problem := exposed(value):
            raise ValueError(problem)
        return value

    @field_validator("resources")
    @classmethod
    def _one_node(cls, value: Resources) -> Resources:
        if value.nodes != 1:
            raise ValueError("'nodes' must be 1: a replica is a job on one node")
        return value

    def fingerprint(self, software: str) -> str:
        """Return the identifier of what a test tries, 32 hexadecimal digits: all but the words for
        people. ``software``: the fingerprint of its environment."""
        tried = self.model_dump(
            mode="json", include={"command", "folder", "health", "example", "resources"}
        )
        text = json.dumps([self.environment, software, tried], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]
