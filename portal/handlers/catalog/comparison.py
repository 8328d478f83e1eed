"""``api/v1/environments/NAME/comparison`` and ``environment-comparison``: what differs between
two versions, or two texts, of an environment."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from portal.catalog.definitions.yaml_text import yaml_text
from portal.catalog.versions.comparison import (
    LineChange,
    PackageChange,
    changed_lines,
    changed_packages,
)
from portal.errors import NotFound
from portal.models import Frozen
from portal.models.catalog.catalog import EnvironmentVersion
from portal.models.scope import ENVIRONMENTS_MANAGE

from ..base.endpoint import Endpoint, Operation, Query
from .editing import NAME

_Text = Annotated[str, StringConstraints(max_length=100_000)]
_Number = Annotated[int, Field(ge=1, le=2**31 - 1)]


class ComparisonQuery(Query):
    """The numbers of two versions."""

    old: _Number
    new: _Number


class Texts(Frozen):
    """Two texts of a definition."""

    old: _Text
    new: _Text


class Lines(Frozen):
    """Every line of both."""

    lines: tuple[LineChange, ...]


class Comparison(Lines):
    """``packages``: those that are not the same; null where those of a version are not known, since
    it was never built or tested."""

    packages: tuple[PackageChange, ...] | None


class VersionComparison(Endpoint):
    """Two versions of one environment."""

    path = "environments/{environment}/comparison"
    parameters = NAME

    @Operation(
        "What differs between two versions of an environment.",
        query=ComparisonQuery,
        scope=ENVIRONMENTS_MANAGE,
    )
    async def on_get(self, environment: str) -> Comparison:
        """Their definitions line by line, and the packages in them."""
        versions = self.parts.store.versions
        old, new = [await versions.get(environment, n) for n in (self.query.old, self.query.new)]
        before, after = [await self._packages(one) for one in (old, new)]
        return Comparison(
            lines=changed_lines(yaml_text(old.environment), yaml_text(new.environment)),
            packages=None if before is None or after is None else changed_packages(before, after),
        )

    async def _packages(self, version: EnvironmentVersion) -> list[str] | None:
        """What a build, or else the newest test of this software, found in it."""
        store = self.parts.store
        if version.build_id is not None:
            try:
                build = await store.builds.get(version.build_id)
            except NotFound:
                build = None
            found = _listed((build.result or {}).get("facts")) if build else None
            if found is not None:
                return found
        verdicts = (await store.tests.verdicts()).get(version.environment.fingerprint, {})
        tested = [found for one in verdicts.values() if (found := _listed(one.facts)) is not None]
        return tested[0] if tested else None


class TextComparison(Endpoint):
    """Two texts, e.g. the one that somebody else has saved meanwhile and one's own."""

    path = "environment-comparison"

    @Operation(
        "What differs between two texts of a definition.", body=Texts, scope=ENVIRONMENTS_MANAGE
    )
    async def on_post(self) -> Lines:
        """Line by line. Nothing is kept."""
        return Lines(lines=changed_lines(self.body.old, self.body.new))


def _listed(facts: object) -> list[str] | None:
    """The packages in ``Facts`` as they are kept; None where there are none."""
    packages = facts.get("packages") if isinstance(facts, dict) else None
    return [str(one) for one in packages] if packages else None


ENDPOINTS = (VersionComparison, TextComparison)
