"""``api/v1/environment-tests``: smoke tests of environments.

Admins see those of the catalog; people those of what they registered themselves, which nobody else
sees.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from portal.errors import InvalidRequest, NotFound
from portal.models import Frozen
from portal.models.audit import AuditAction
from portal.models.catalog.catalog import EnvironmentTest
from portal.models.catalog.environment import Environment, EnvironmentState
from portal.models.scope import ENVIRONMENTS_MANAGE

from ..base.action import Action, Confirmation
from ..base.endpoint import Endpoint, Operation
from ..base.event_stream import StreamOperation
from ..base.paging import Page, PageQuery, page
from .editing import NAME, CuratorOperation
from .versions import GpuTypes, StartedTests
from .work_log import WORK_ID, LogQuery, LogText, WorkEndpoint, WorkEvents

_ONE = {"test_id": WORK_ID}


class TestEndpoint(WorkEndpoint):
    """Base class of endpoints for a single test."""

    __test__ = False  # not a test of pytest's
    kind = "test"
    parameters = _ONE

    async def work(self, id: str) -> EnvironmentTest:
        """Return a test: of the catalog for admins, of one's own environments for everyone."""
        return await _test_for(self, id)


class Tests(Endpoint):
    """List of the tests, without those of other people's own environments."""

    __test__ = False
    path = "environment-tests"

    @CuratorOperation("Smoke tests of environments, the newest first.", query=PageQuery)
    async def on_get(self) -> Page[EnvironmentTest]:
        """Return tests in progress and those that have ended."""
        query = self.query
        await self.parts.catalog.load()
        items, total = await self.parts.store.tests.without(
            _others(self), query.offset, query.limit
        )
        return page(items, query, total)


class OneTest(TestEndpoint):
    """Test by its id."""

    path = "environment-tests/{test_id}"

    @Operation("One smoke test.")
    async def on_get(self, test_id: str) -> EnvironmentTest:
        """Return its progress, or its result."""
        return await self.work(test_id)


class TestLog(TestEndpoint):
    """Log of a test's job."""

    path = "environment-tests/{test_id}/log"

    @Operation("Part of a test's log.", query=LogQuery)
    async def on_get(self, test_id: str) -> LogText:
        """Return plain text from 'offset' on."""
        await self.work(test_id)
        return await self.log_text(test_id, self.query.offset)


class TestEvents(TestEndpoint, WorkEvents):
    """State and log of a test as an event stream."""

    path = "environment-tests/{test_id}/events"

    @StreamOperation("Server-sent events with a test's state and log.", query=LogQuery)
    async def on_get(self, test_id: str) -> None:
        """Send events 'test' (as environment-tests/{test_id}) and 'log' (text and next offset)."""
        await self.stream(test_id)


class CancelTest(Action):
    """Cancellation of a test."""

    path = "environment-tests/{test_id}/cancel"
    parameters = _ONE

    @CuratorOperation("Cancel a test.", errors=(409,))
    async def on_post(self, test_id: str) -> EnvironmentTest:
        """Discard the test: it then says nothing about the environment."""
        async with self.audited(AuditAction.CANCEL_TEST, f"test {test_id}"):
            await _test_for(self, test_id)
            return await self.parts.build_scheduler.cancel_test(int(test_id), self.person.name)


class TestEnvironment(Action):
    """New test of an environment of the catalog."""

    __test__ = False
    path = "environments/{environment}/test"
    parameters = NAME

    @CuratorOperation("Test an environment of the catalog again.", body=GpuTypes, status=202)
    async def on_post(self, environment: str) -> StartedTests:
        """Test it in Slurm jobs, without GPUs and on each type of GPU.

        If it fails, it is not offered any more.
        """
        async with self.audited(AuditAction.TEST_ENVIRONMENT, f"environment {environment}"):
            await self.parts.catalog.load()
            entry = self.parts.catalog.environments.get(environment)
            if entry is None or entry.private:
                raise NotFound(f"There is no environment '{environment}' in the catalog.")
            tests = await self.parts.build_scheduler.test(
                entry, None, self.body.gpu_types, self.person.name
            )
        return StartedTests(items=tuple(tests))


class NotTested(Frozen):
    """Environment that could not be tested, and the reason."""

    environment: str
    reason: str


class AllTests(Confirmation):
    """Tests that were started or joined."""

    items: tuple[EnvironmentTest, ...]
    left_out: Annotated[
        tuple[NotTested, ...], Field(description="Withdrawn environments are not listed.")
    ]


class TestAll(Action):
    """New test of the whole catalog."""

    __test__ = False
    path = "environments/test-all"

    @CuratorOperation("Test every environment of the catalog again.", status=202)
    async def on_post(self) -> AllTests:
        """Test a few at a time, so that users wait for few GPUs.

        Leave out the environments that users registered for themselves.
        """
        async with self.audited(AuditAction.TEST_ENVIRONMENTS, "all environments") as line:
            await self.parts.catalog.load()
            tests: list[EnvironmentTest] = []
            left_out = []
            for environment in self.parts.catalog.environments.values():
                if not _due(environment):
                    continue
                try:
                    tests += await self.parts.build_scheduler.test(
                        environment, None, None, self.person.name
                    )
                except InvalidRequest as error:
                    left_out.append(NotTested(environment=environment.name, reason=error.message))
            number = len({test.name for test in tests})
            line.detail = f"{len(tests)} tests of {number} environments."
        return AllTests(
            message=f"{len(tests)} tests of {number} environments are under way.",
            items=tuple(tests),
            left_out=tuple(left_out),
        )


def _due(environment: Environment) -> bool:
    return not environment.private and environment.state is not EnvironmentState.WITHDRAWN


ENDPOINTS = (Tests, OneTest, TestLog, TestEvents, CancelTest, TestAll, TestEnvironment)


def _others(handler: Endpoint) -> frozenset[str]:
    """Return the names of environments that other people registered for themselves."""
    known = handler.parts.catalog.environments.values()
    return frozenset(
        environment.name
        for environment in known
        if environment.private and environment.owner != handler.person.name
    )


async def _test_for(handler: Endpoint, id: str) -> EnvironmentTest:
    """Return a test, if the requester may see it. Raises NotFound."""
    test = await handler.parts.store.tests.get(int(id))
    await handler.parts.catalog.load()
    environment = handler.parts.catalog.environments.get(test.name)
    own = (
        environment is not None and environment.private and environment.owner == handler.person.name
    )
    if test.name in _others(handler) or not (own or handler.person.may(ENVIRONMENTS_MANAGE)):
        raise NotFound(f"There is no test {id}.")
    return test
