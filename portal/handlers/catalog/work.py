"""Builds, tests and versions that belong together, and resolution of image references.

``builds/ID/versions``, ``environments/NAME/versions/N/tests``, ``images/resolve``.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from portal.errors import InvalidRequest
from portal.models import Frozen
from portal.models.catalog.catalog import EnvironmentTest, EnvironmentVersion
from portal.models.catalog.image import ResolvedImage, parse_source

from ..base.endpoint import Endpoint
from .editing import CuratorOperation
from .versions import VERSION


class BuildVersions(Frozen):
    """Versions that a build is for, the oldest first."""

    items: tuple[EnvironmentVersion, ...]


class VersionsOfBuild(Endpoint):
    """Versions that a build is for."""

    path = "builds/{build_id}/versions"
    parameters = {"build_id": "[0-9]{1,9}"}

    @CuratorOperation("The versions of environments that a build is for.")
    async def on_get(self, build_id: str) -> BuildVersions:
        """Return an empty list once no version needs the build."""
        return BuildVersions(items=tuple(await self.parts.store.versions.of_build(int(build_id))))


class VersionTests(Frozen):
    """Newest test for each type of GPU; "" (without GPUs) first."""

    items: tuple[EnvironmentTest, ...]


class TestsOfVersion(Endpoint):
    """Tests of a version."""

    __test__ = False  # not a test of pytest's
    path = "environments/{environment}/versions/{number}/tests"
    parameters = VERSION

    @CuratorOperation("The newest tests of a version of an environment.")
    async def on_get(self, environment: str, number: str) -> VersionTests:
        """Return tests of the same software: versions that differ only in titles share them."""
        version = await self.parts.store.versions.get(environment, int(number))
        tests = await self.parts.store.tests.newest(version.environment.fingerprint)
        return VersionTests(items=tuple(test for _, test in sorted(tests.items())))


class Reference(Frozen):
    """OCI reference, as pasted by an admin."""

    source: Annotated[str, StringConstraints(min_length=1, max_length=1024, strip_whitespace=True)]


class ResolveImage(Endpoint):
    """Image that a tag refers to now."""

    path = "images/resolve"

    @CuratorOperation("Resolve an image reference at its registry.", body=Reference)
    async def on_post(self) -> ResolvedImage:
        """Resolve the reference without pulling or storing anything.

        A build resolves it again, and pins what it finds.
        """
        try:
            source = parse_source(self.body.source)
        except ValueError as error:
            raise InvalidRequest(f"{error}.", "source") from None
        registries = await self.parts.store.registries.all()
        return await self.parts.build_scheduler.registries.resolve(source, registries)


ENDPOINTS = (VersionsOfBuild, TestsOfVersion, ResolveImage)
