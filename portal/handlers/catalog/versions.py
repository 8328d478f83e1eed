"""``api/v1/environments/NAME/versions``: every version, and what is done with one."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from portal.catalog.definitions.yaml_text import yaml_text
from portal.errors import NotFound
from portal.models import Frozen
from portal.models.catalog.catalog import Build, EnvironmentTest, EnvironmentVersion
from portal.models.catalog.environment import Name
from portal.models.scope import ENVIRONMENTS_MANAGE

from ..base.action import Action
from ..base.endpoint import Operation
from ..base.paging import Page, PageQuery, offset_of, page
from .editing import NAME

VERSION = {**NAME, "number": "[1-9][0-9]{0,8}"}
_Group = Annotated[str, StringConstraints(min_length=1, max_length=255)]


class VersionText(Frozen):
    """A version as the file of the catalog that it would be."""

    number: int
    text: str


class GpuTypes(Frozen):
    """On which types of GPU; null: all that it is offered for."""

    gpu_types: Annotated[
        tuple[Annotated[str, StringConstraints(max_length=64)], ...] | None, Field(max_length=100)
    ] = None


class StartedTests(Frozen):
    """The tests that were started or joined."""

    items: tuple[EnvironmentTest, ...]


class Audience(Frozen):
    """Who sees it: members of one of the groups or courses; both empty: everyone. null: as the
    version says."""

    groups: Annotated[tuple[_Group, ...] | None, Field(max_length=200)] = None
    courses: Annotated[tuple[Name, ...] | None, Field(max_length=200)] = None


class Previewed(Frozen):
    """``name``: of the environment that admins can launch now."""

    name: str
    title: str


class Versions(Action):
    """All of them."""

    path = "environments/{environment}/versions"
    parameters = NAME

    @Operation(
        "The versions of an environment, the newest first.",
        query=PageQuery,
        scope=ENVIRONMENTS_MANAGE,
    )
    async def on_get(self, environment: str) -> Page[EnvironmentVersion]:
        """Who changed what, when."""
        query = self.query
        items, total = await self.parts.store.versions.of(
            environment, offset_of(query.after), query.limit
        )
        if not total:
            raise NotFound(f"There are no versions of an environment '{environment}'.")
        return page(items, query, total)


class VersionAction(Action):
    """Base of what is done with one version."""

    async def version(self, environment: str, number: str) -> EnvironmentVersion:
        """Raises NotFound."""
        return await self.parts.store.versions.get(environment, int(number))


class OneVersion(VersionAction):
    """One version."""

    path = "environments/{environment}/versions/{number}"
    parameters = VERSION

    @Operation("One version of an environment.", scope=ENVIRONMENTS_MANAGE)
    async def on_get(self, environment: str, number: str) -> EnvironmentVersion:
        """With its whole definition."""
        return await self.version(environment, number)


class TextOfVersion(VersionAction):
    """The same as YAML."""

    path = "environments/{environment}/versions/{number}/text"
    parameters = VERSION

    @Operation("A version as the YAML of a file.", scope=ENVIRONMENTS_MANAGE)
    async def on_get(self, environment: str, number: str) -> VersionText:
        """Two of them can be compared line by line."""
        version = await self.version(environment, number)
        return VersionText(number=version.number, text=yaml_text(version.environment))


class BuildVersion(VersionAction):
    """Its image."""

    path = "environments/{environment}/versions/{number}/build"
    parameters = VERSION

    @Operation("Build the image of a version.", scope=ENVIRONMENTS_MANAGE, errors=(409, 502))
    async def on_post(self, environment: str, number: str) -> Build:
        """A job in Slurm; it is tested after that. An image that is there already is used, and a
        build of the same that is under way is joined."""
        target = f"environment {environment} version {number}"
        async with self.audited("build-environment", target):
            version = await self.version(environment, number)
            return await self.parts.workshop.build(version, self.person.name)


class TestVersion(VersionAction):
    """Its smoke test."""

    __test__ = False  # not a test of pytest's
    path = "environments/{environment}/versions/{number}/test"
    parameters = VERSION

    @Operation(
        "Test a version in jobs of Slurm.",
        body=GpuTypes,
        scope=ENVIRONMENTS_MANAGE,
        errors=(409, 502),
    )
    async def on_post(self, environment: str, number: str) -> StartedTests:
        """Without GPUs, and on each type of GPU."""
        target = f"environment {environment} version {number}"
        async with self.audited("test-environment", target):
            version = await self.version(environment, number)
            tests = await self.parts.workshop.test(
                version.environment, version.number, self.body.gpu_types, self.person.name
            )
        return StartedTests(items=tuple(tests))


class PublishVersion(VersionAction):
    """For people."""

    path = "environments/{environment}/versions/{number}/publish"
    parameters = VERSION

    @Operation(
        "Offer a version to people.", body=Audience, scope=ENVIRONMENTS_MANAGE, errors=(409,)
    )
    async def on_post(self, environment: str, number: str) -> EnvironmentVersion:
        """It must have passed its test; virtual environments and modules need none. Where
        something else was published since it was edited, that is a conflict, with both texts."""
        target = f"environment {environment} version {number}"
        async with self.audited("publish-environment", target) as line:
            done = await self.parts.curator.publish(
                environment, int(number), self.person.name, self.body.groups, self.body.courses
            )
            seen = (*done.environment.groups, *done.environment.courses)
            line.target = f"environment {environment} version {done.number}"
            line.detail = f"For {', '.join(seen)}." if seen else "For everyone."
        return done


class PreviewVersion(VersionAction):
    """For admins."""

    path = "environments/{environment}/versions/{number}/preview"
    parameters = VERSION

    @Operation(
        "Let admins launch a tested version before it is published.",
        scope=ENVIRONMENTS_MANAGE,
        errors=(409,),
    )
    async def on_post(self, environment: str, number: str) -> Previewed:
        """Under a name of its own, in the place of an earlier preview."""
        target = f"environment {environment} version {number}"
        async with self.audited("preview-environment", target):
            made = await self.parts.curator.preview(environment, int(number))
        return Previewed(name=made.name, title=made.title)


ENDPOINTS = (
    Versions,
    OneVersion,
    TextOfVersion,
    BuildVersion,
    TestVersion,
    PublishVersion,
    PreviewVersion,
)
