"""``api/v1/environments/NAME/comparison`` and ``environment-comparison``.

Differences between two versions, or two texts, of an environment.
"""

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

from ..base.endpoint import Endpoint, Query
from .editing import NAME, CuratorOperation

_Text = Annotated[str, StringConstraints(max_length=100_000)]
_Number = Annotated[int, Field(ge=1, le=2**31 - 1)]


class ComparisonQuery(Query):
    """Numbers of two versions."""

    old: _Number
    new: _Number


class Texts(Frozen):
    """Two texts of a definition."""

    old: _Text
    new: _Text


class Lines(Frozen):
    """Every line of both texts."""

    lines: tuple[LineChange, ...]


class Comparison(Lines):
    """Comparison of two versions. ``packages``: those that differ.

    It is null if the packages of a version are unknown, since it was never built or tested.
    """

    packages: tuple[PackageChange, ...] | None


class VersionComparison(Endpoint):
    """Comparison of two versions of an environment."""

    path = "environments/{environment}/comparison"
    parameters = NAME

    @CuratorOperation("Differences between two versions of an environment.", query=ComparisonQuery)
    async def on_get(self, environment: str) -> Comparison:
        """Compare their definitions line by line, and the packages in them."""
        versions = self.parts.store.versions
        old, new = [await versions.get(environment, n) for n in (self.query.old, self.query.new)]
        before, after = [await self._packages(version) for version in (old, new)]
        return Comparison(
            lines=changed_lines(yaml_text(old.environment), yaml_text(new.environment)),
            packages=None if before is None or after is None else changed_packages(before, after),
        )

    async def _packages(self, version: EnvironmentVersion) -> list[str] | None:
        """Return the packages that a build, or else the newest test of this software, found."""
        store = self.parts.store
        if version.build_id is not None:
            try:
                build = await store.builds.get(version.build_id)
            except NotFound:
                build = None
            packages = _listed((build.result or {}).get("facts")) if build else None
            if packages is not None:
                return packages
        verdicts = (await store.tests.verdicts()).get(version.environment.fingerprint, {})
        tested = [
            packages
            for verdict in verdicts.values()
            if (packages := _listed(verdict.facts)) is not None
        ]
        return tested[0] if tested else None


class TextComparison(Endpoint):
    """Comparison of two texts, e.g. one's own and the one that somebody else saved meanwhile."""

    path = "environment-comparison"

    @CuratorOperation("Differences between two texts of a definition.", body=Texts)
    async def on_post(self) -> Lines:
        """Compare line by line. Nothing is stored."""
        return Lines(lines=changed_lines(self.body.old, self.body.new))


def _listed(facts: object) -> list[str] | None:
    """Return the packages in stored ``Facts``; None if there are none."""
    packages = facts.get("packages") if isinstance(facts, dict) else None
    return [str(package) for package in packages] if packages else None


ENDPOINTS = (VersionComparison, TextComparison)
