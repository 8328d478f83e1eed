"""``api/v1/builds``: builds of images, in progress and ended."""

from __future__ import annotations

from portal.models.audit import AuditAction
from portal.models.catalog.catalog import Build
from portal.models.scope import ENVIRONMENTS_MANAGE

from ..base.action import Action
from ..base.event_stream import StreamOperation
from ..base.paging import Page, PageQuery, page
from .editing import CuratorOperation
from .work_log import WORK_ID, LogQuery, LogText, WorkEndpoint, WorkEvents

_ONE = {"build_id": WORK_ID}


class BuildEndpoint(WorkEndpoint):
    """Base class of endpoints for a single build."""

    kind = "build"
    parameters = _ONE

    async def work(self, id: str) -> Build:
        """Return any build: they are for admins only."""
        return await self.parts.store.builds.get(int(id))


class Builds(BuildEndpoint):
    """List of the builds."""

    path = "builds"
    parameters = {}

    @CuratorOperation("Builds of images, the newest first.", query=PageQuery)
    async def on_get(self) -> Page[Build]:
        """Return builds in progress and those that have ended."""
        query = self.query
        items, total = await self.parts.store.builds.all(query.offset, query.limit)
        return page(items, query, total)


class OneBuild(BuildEndpoint):
    """Build by its id."""

    path = "builds/{build_id}"

    @CuratorOperation("One build.")
    async def on_get(self, build_id: str) -> Build:
        """Return its progress, or its result."""
        return await self.work(build_id)


class BuildLog(BuildEndpoint):
    """Log of a build's job."""

    path = "builds/{build_id}/log"

    @CuratorOperation("Part of a build's log.", query=LogQuery)
    async def on_get(self, build_id: str) -> LogText:
        """Return plain text from 'offset' on."""
        return await self.log_text(build_id, self.query.offset)


class BuildEvents(BuildEndpoint, WorkEvents):
    """State and log of a build as an event stream."""

    path = "builds/{build_id}/events"

    @StreamOperation(
        "Server-sent events with a build's state and log.",
        query=LogQuery,
        scope=ENVIRONMENTS_MANAGE,
    )
    async def on_get(self, build_id: str) -> None:
        """Send events 'build' (as from builds/{build_id}) and 'log' (text and next offset)."""
        await self.stream(build_id)


class CancelBuild(Action):
    """Cancellation of a build."""

    path = "builds/{build_id}/cancel"
    parameters = _ONE

    @CuratorOperation("Cancel a build.", errors=(409,))
    async def on_post(self, build_id: str) -> Build:
        """Cancel it for all who asked for it. Nothing unfinished stays; what was pulled does."""
        async with self.audited(AuditAction.CANCEL_BUILD, f"build {build_id}"):
            return await self.parts.build_scheduler.cancel_build(int(build_id), self.person.name)


class RetryBuild(Action):
    """Retry of a build."""

    path = "builds/{build_id}/retry"
    parameters = _ONE

    @CuratorOperation("Repeat a failed or cancelled build.", errors=(409,))
    async def on_post(self, build_id: str) -> Build:
        """Start a new build of the same digest; what was pulled is not pulled again."""
        async with self.audited(AuditAction.RETRY_BUILD, f"build {build_id}") as line:
            build = await self.parts.build_scheduler.retry(int(build_id), self.person.name)
            line.detail = f"Build {build.id}."
        return build


ENDPOINTS = (Builds, OneBuild, BuildLog, BuildEvents, CancelBuild, RetryBuild)
