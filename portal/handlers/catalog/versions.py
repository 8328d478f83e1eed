"""``api/v1/environments/NAME/versions``: every version, and actions on one of them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from portal.catalog.definitions.yaml_text import yaml_text
from portal.errors import NotFound
from portal.models import Frozen
from portal.models.audit import AuditAction
from portal.models.catalog.catalog import Build, EnvironmentTest, EnvironmentVersion
from portal.models.catalog.environment import Audience

from ..base.action import Action
from ..base.paging import Page, PageQuery, page
from .editing import NAME, CuratorOperation

VERSION = {**NAME, "number": "[1-9][0-9]{0,8}"}


class VersionText(Frozen):
    """Version as the text of a catalog file."""

    number: int
    text: str


class GpuTypes(Frozen):
    """Types of GPU to test on; null: all that it is offered for."""

    gpu_types: Annotated[
        tuple[Annotated[str, StringConstraints(max_length=64)], ...] | None, Field(max_length=100)
    ] = None


class StartedTests(Frozen):
    """Tests that were started or joined."""

    items: tuple[EnvironmentTest, ...]


class Previewed(Frozen):
    """Preview of a version. ``name``: of the environment that admins can launch now."""

    name: str
    title: str


class Versions(Action):
    """Versions of an environment."""

    path = "environments/{environment}/versions"
    parameters = NAME

    @CuratorOperation("The versions of an environment, the newest first.", query=PageQuery)
    async def on_get(self, environment: str) -> Page[EnvironmentVersion]:
        """Return who changed what, and when."""
        query = self.query
        items, total = await self.parts.store.versions.of_environment(
            environment, query.offset, query.limit
        )
        if not total:
            raise NotFound(f"Environment '{environment}' has no versions.")
        return page(items, query, total)


class VersionAction(Action):
    """Base class of actions on a version."""

    parameters = VERSION

    async def version(self, environment: str, number: str) -> EnvironmentVersion:
        """Return the version. Raises NotFound."""
        return await self.parts.store.versions.get(environment, int(number))


class OneVersion(VersionAction):
    """Version by its number."""

    path = "environments/{environment}/versions/{number}"

    @CuratorOperation("One version of an environment.")
    async def on_get(self, environment: str, number: str) -> EnvironmentVersion:
        """Return it with its whole definition."""
        return await self.version(environment, number)


class TextOfVersion(VersionAction):
    """YAML text of a version."""

    path = "environments/{environment}/versions/{number}/text"

    @CuratorOperation("A version as YAML text.")
    async def on_get(self, environment: str, number: str) -> VersionText:
        """Return text that can be compared line by line with that of another version."""
        version = await self.version(environment, number)
        return VersionText(number=version.number, text=yaml_text(version.environment))


class BuildVersion(VersionAction):
    """Build of a version's image."""

    path = "environments/{environment}/versions/{number}/build"

    @CuratorOperation("Build the image of a version.", errors=(409, 502))
    async def on_post(self, environment: str, number: str) -> Build:
        """Build it in a Slurm job, then test it.

        An existing image is reused, and a build of the same image in progress is joined.
        """
        target = f"environment {environment} version {number}"
        async with self.audited(AuditAction.BUILD_ENVIRONMENT, target):
            version = await self.version(environment, number)
            return await self.parts.build_scheduler.build(version, self.person.name)


class TestVersion(VersionAction):
    """Smoke test of a version."""

    __test__ = False  # not a test of pytest's
    path = "environments/{environment}/versions/{number}/test"

    @CuratorOperation("Test a version in Slurm jobs.", body=GpuTypes, errors=(409, 502))
    async def on_post(self, environment: str, number: str) -> StartedTests:
        """Test it without GPUs, and on each type of GPU."""
        target = f"environment {environment} version {number}"
        async with self.audited(AuditAction.TEST_ENVIRONMENT, target):
            version = await self.version(environment, number)
            tests = await self.parts.build_scheduler.test(
                version.environment, version.number, self.body.gpu_types, self.person.name
            )
        return StartedTests(items=tuple(tests))


class PublishVersion(VersionAction):
    """Publication of a version."""

    path = "environments/{environment}/versions/{number}/publish"

    @CuratorOperation("Publish a version.", body=Audience, errors=(409,))
    async def on_post(self, environment: str, number: str) -> EnvironmentVersion:
        """Publish a version that has passed its test; virtual environments and modules need none.

        If something else was published since it was edited, that is a conflict, with both texts.
        """
        target = f"environment {environment} version {number}"
        async with self.audited(AuditAction.PUBLISH_ENVIRONMENT, target) as line:
            done = await self.parts.curator.publish(
                environment, int(number), self.person.name, self.body
            )
            seen = done.environment.visible_to
            line.target = f"environment {environment} version {done.number}"
            line.detail = f"For {', '.join(seen)}." if seen else "For everyone."
        return done


class PreviewVersion(VersionAction):
    """Preview of a version for admins."""

    path = "environments/{environment}/versions/{number}/preview"

    @CuratorOperation("Let admins launch a tested version before it is published.", errors=(409,))
    async def on_post(self, environment: str, number: str) -> Previewed:
        """Offer it to admins under a name of its own, in place of an earlier preview."""
        target = f"environment {environment} version {number}"
        async with self.audited(AuditAction.PREVIEW_ENVIRONMENT, target):
            preview = await self.parts.curator.preview(environment, int(number))
        return Previewed(name=preview.name, title=preview.title)


ENDPOINTS = (
    Versions,
    OneVersion,
    TextOfVersion,
    BuildVersion,
    TestVersion,
    PublishVersion,
    PreviewVersion,
)
