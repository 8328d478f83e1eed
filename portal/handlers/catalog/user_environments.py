"""``api/v1/own-environments``: environments that people register for themselves."""

from __future__ import annotations

from portal.catalog.versions.user_environments import OwnDraft
from portal.models import Frozen
from portal.models.audit import AuditAction
from portal.models.catalog.catalog import EnvironmentTest
from portal.models.catalog.environment import Environment, EnvironmentKind, Server

from ..base.action import Action
from ..base.endpoint import Endpoint, Operation
from .editing import NAME
from .versions import StartedTests


class OwnItem(Frozen):
    """Environment that a user has registered. ``state``: testing, ready or failed.

    ``reason``: why it cannot be launched. ``tests``: the newest for each GPU type.
    """

    name: str
    title: str
    kind: EnvironmentKind
    path: str
    server: Server
    description: str
    state: str
    reason: str
    tests: tuple[EnvironmentTest, ...]


class OwnList(Frozen):
    """Environments that a user has registered.

    ``allowed``: whether you may register (more); ``refusal``: why not. ``most``: how many you may
    have.
    """

    items: tuple[OwnItem, ...]
    allowed: bool
    refusal: str
    most: int


class OwnAction(Action):
    """Base class of endpoints that return an environment of one's own."""

    async def item(self, environment: Environment) -> OwnItem:
        """Return the environment with its state and tests."""
        own = self.parts.user_environments
        tests = tuple((await own.tests(environment)).values())
        reason = own.reason(environment)
        state = "failed" if reason else "ready"
        if await own.live(environment):
            state = "testing" if reason else state
        elif reason and not tests:
            state = "testing"
        return OwnItem(
            name=environment.name,
            title=environment.title,
            kind=environment.kind,
            path=environment.image or environment.path or "",
            server=environment.server,
            description=environment.description,
            state=state,
            reason=reason,
            tests=tests,
        )


class UserEnvironmentsEndpoint(OwnAction):
    """Environments of one's own."""

    path = "own-environments"

    @Operation("The environments that you registered.")
    async def on_get(self) -> OwnList:
        """Return only your own: neither other users nor admins see them."""
        own, person = self.parts.user_environments, self.person
        items = [await self.item(environment) for environment in await own.of_user(person)]
        refusal = own.refusal(person)
        return OwnList(
            items=tuple(items),
            allowed=not refusal and len(items) < own.most,
            refusal=refusal,
            most=own.most,
        )

    @Operation(
        "Register your own image or virtual environment.",
        body=OwnDraft,
        status=201,
        errors=(409,),
    )
    async def on_post(self) -> OwnItem:
        """Test it in jobs of yours; when it has passed, it is offered to you alone."""
        async with self.audited(
            AuditAction.REGISTER_ENVIRONMENT, "own environment", self.person.name, self.body.path
        ) as line:
            environment = await self.parts.user_environments.register(self.body, self.person)
            line.target = f"environment {environment.name}"
        return await self.item(environment)


class OneOwnEnvironment(Action):
    """Environment of one's own, by its name."""

    path = "own-environments/{environment}"
    parameters = NAME

    @Operation("Remove one of your environments.", errors=(409,))
    async def on_delete(self, environment: str) -> None:
        """Leave its files as they are; sessions that run in it go on."""
        target = f"environment {environment}"
        async with self.audited(AuditAction.REMOVE_ENVIRONMENT, target, self.person.name):
            await self.parts.user_environments.remove(environment, self.person)


class TestOwnEnvironment(Action):
    """New test of an environment of one's own."""

    __test__ = False  # not a test of pytest's
    path = "own-environments/{environment}/test"
    parameters = NAME

    @Operation("Test one of your environments again.", status=202)
    async def on_post(self, environment: str) -> StartedTests:
        """Test it in jobs of yours, without GPUs and on each type of GPU."""
        async with self.audited(
            AuditAction.TEST_ENVIRONMENT, f"environment {environment}", self.person.name
        ):
            tests = await self.parts.user_environments.test(environment, self.person)
        return StartedTests(items=tuple(tests))


ENDPOINTS: tuple[type[Endpoint], ...] = (
    UserEnvironmentsEndpoint,
    OneOwnEnvironment,
    TestOwnEnvironment,
)
