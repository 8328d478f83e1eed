"""``api/v1/environment-tests``: smoke tests of environments. Admins see those of the catalog;
people those of what they registered themselves, which nobody else sees."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from portal.errors import InvalidRequest, NotFound
from portal.models import Frozen
from portal.models.catalog.catalog import EnvironmentTest
from portal.models.catalog.environment import Environment, EnvironmentState
from portal.models.scope import ENVIRONMENTS_MANAGE

from ..base.action import Action, Done
from ..base.endpoint import Endpoint, Operation
from ..base.paging import Page, PageQuery, offset_of, page
from .editing import NAME
from .versions import GpuTypes, StartedTests
from .work_log import WORK_ID, LogQuery, LogText, WorkEndpoint, WorkEvents

_ONE = {"test_id": WORK_ID}


class TestEndpoint(WorkEndpoint):
    """Base of what is about one test."""

    __test__ = False  # not a test of pytest's
    kind = "test"
    parameters = _ONE

    async def work(self, id: str) -> EnvironmentTest:
        """Those of the catalog for admins, and for a person those of their own environments."""
        return await _test_for(self, id)


class Tests(Endpoint):
    """All of them, without those of what others registered for themselves."""

    __test__ = False
    path = "environment-tests"

    @Operation(
        "Smoke tests of environments, the newest first.", query=PageQuery, scope=ENVIRONMENTS_MANAGE
    )
    async def on_get(self) -> Page[EnvironmentTest]:
        """Those that are under way and those that are over."""
        query = self.query
        await self.parts.catalog.load()
        items, total = await self.parts.store.tests.without(
            _others(self), offset_of(query.after), query.limit
        )
        return page(items, query, total)


class OneTest(TestEndpoint):
    """One of them."""

    path = "environment-tests/{test_id}"

    @Operation("One smoke test.")
    async def on_get(self, test_id: str) -> EnvironmentTest:
        """How far it is, or what came out."""
        return await self.work(test_id)


class TestLog(TestEndpoint):
    """What its job wrote."""

    path = "environment-tests/{test_id}/log"

    @Operation("A piece of a test's log.", query=LogQuery)
    async def on_get(self, test_id: str) -> LogText:
        """Plain text from 'offset' on."""
        await self.work(test_id)
        return await self.log_text(test_id, self.query.offset)


class TestEvents(TestEndpoint, WorkEvents):
    """The same as it comes."""

    path = "environment-tests/{test_id}/events"

    @Operation(
        "Server-sent events: a test's state and log, as they come.",
        query=LogQuery,
        media="text/event-stream",
        errors=(429,),
    )
    async def on_get(self, test_id: str) -> None:
        """Events 'test' (as from environment-tests/{test_id}) and 'log' (text and next offset)."""
        await self.stream(test_id)


class CancelTest(Action):
    """End it."""

    path = "environment-tests/{test_id}/cancel"
    parameters = _ONE

    @Operation("Cancel a test.", scope=ENVIRONMENTS_MANAGE, errors=(409,))
    async def on_post(self, test_id: str) -> EnvironmentTest:
        """It then says nothing of the environment."""
        async with self.audited("cancel-test", f"test {test_id}"):
            await _test_for(self, test_id)
            return await self.parts.workshop.cancel_test(int(test_id), self.person.name)


class TestEnvironment(Action):
    """What is in the catalog, once more."""

    __test__ = False
    path = "environments/{environment}/test"
    parameters = NAME

    @Operation(
        "Test an environment of the catalog again.",
        body=GpuTypes,
        scope=ENVIRONMENTS_MANAGE,
        status=202,
    )
    async def on_post(self, environment: str) -> StartedTests:
        """In jobs of Slurm, without GPUs and on each type of GPU. What fails is not offered any
        more."""
        async with self.audited("test-environment", f"environment {environment}"):
            await self.parts.catalog.load()
            found = self.parts.catalog.environments.get(environment)
            if found is None or found.private:
                raise NotFound(f"There is no environment '{environment}' in the catalog.")
            tests = await self.parts.workshop.test(
                found, None, self.body.gpu_types, self.person.name
            )
        return StartedTests(items=tuple(tests))


class NotTested(Frozen):
    """What could not be tested, and why."""

    environment: str
    reason: str


class AllTests(Done):
    """The tests that were started or joined."""

    items: tuple[EnvironmentTest, ...]
    left_out: Annotated[tuple[NotTested, ...], Field(description="Withdrawn ones are not named.")]


class TestAll(Action):
    """The whole catalog, once more."""

    __test__ = False
    path = "environments/test-all"

    @Operation(
        "Test every environment of the catalog again.", scope=ENVIRONMENTS_MANAGE, status=202
    )
    async def on_post(self) -> AllTests:
        """A few at a time, so that people wait for two GPUs at most. What people registered for
        themselves is theirs to test."""
        async with self.audited("test-environments", "all environments") as line:
            await self.parts.catalog.load()
            tests: list[EnvironmentTest] = []
            left_out = []
            for one in self.parts.catalog.environments.values():
                if not _due(one):
                    continue
                try:
                    tests += await self.parts.workshop.test(one, None, None, self.person.name)
                except InvalidRequest as error:
                    left_out.append(NotTested(environment=one.name, reason=error.message))
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


def _others(asked: Endpoint) -> frozenset[str]:
    """The names of what others than who asks have registered for themselves."""
    known = asked.parts.catalog.environments.values()
    return frozenset(one.name for one in known if one.private and one.owner != asked.person.name)


async def _test_for(asked: Endpoint, id: str) -> EnvironmentTest:
    """One test, if who asks may see it. Raises NotFound."""
    test = await asked.parts.store.tests.get(int(id))
    await asked.parts.catalog.load()
    found = asked.parts.catalog.environments.get(test.name)
    own = found is not None and found.private and found.owner == asked.person.name
    if test.name in _others(asked) or not (own or asked.person.may(ENVIRONMENTS_MANAGE)):
        raise NotFound(f"There is no test {id}.")
    return test
