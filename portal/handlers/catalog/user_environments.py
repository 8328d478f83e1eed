"""``api/v1/own-environments``: what people register for themselves."""

from __future__ import annotations

from portal.catalog.versions.user_environments import OwnDraft
from portal.models import Frozen
from portal.models.catalog.catalog import EnvironmentTest
from portal.models.catalog.environment import Environment, Kind, Server

from ..base.action import Action
from ..base.endpoint import Endpoint, Operation
from .editing import NAME
from .versions import StartedTests


class OwnItem(Frozen):
    """One of them. ``state``: testing, ready or failed; ``reason``: why it cannot be launched.
    ``tests``: the newest for each GPU type."""

    name: str
    title: str
    kind: Kind
    path: str
    server: Server
    description: str
    state: str
    reason: str
    tests: tuple[EnvironmentTest, ...]


class OwnList(Frozen):
    """``allowed``: whether one may register (more); ``refusal``: why not. ``most``: how many one
    may have."""

    items: tuple[OwnItem, ...]
    allowed: bool
    refusal: str
    most: int


class OwnAction(Action):
    """Base of both."""

    async def item(self, environment: Environment) -> OwnItem:
        """How it stands with one."""
        own = self.parts.own
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


class OwnEnvironmentsEndpoint(OwnAction):
    """One's own."""

    path = "own-environments"

    @Operation("The environments that you registered.")
    async def on_get(self) -> OwnList:
        """Nobody else sees them, admins neither."""
        own, person = self.parts.own, self.person
        found = [await self.item(one) for one in await own.of(person)]
        refusal = own.refusal(person)
        return OwnList(
            items=tuple(found),
            allowed=not refusal and len(found) < own.most,
            refusal=refusal,
            most=own.most,
        )

    @Operation(
        "Register an image or virtual environment of yours.",
        body=OwnDraft,
        status=201,
        errors=(409,),
    )
    async def on_post(self) -> OwnItem:
        """It is tested in jobs of yours, and offered to you, and only you, when it has passed."""
        async with self.audited(
            "register-environment", "own environment", self.person.name, self.body.path
        ) as line:
            made = await self.parts.own.register(self.body, self.person)
            line.target = f"environment {made.name}"
        return await self.item(made)


class OneOwnEnvironment(Action):
    """One of them."""

    path = "own-environments/{environment}"
    parameters = NAME

    @Operation("Forget an environment of yours.", errors=(409,))
    async def on_delete(self, environment: str) -> None:
        """Its files stay as they are; sessions that run in it go on."""
        target = f"environment {environment}"
        async with self.audited("remove-environment", target, self.person.name):
            await self.parts.own.remove(environment, self.person)


class TestOwnEnvironment(Action):
    """Once more."""

    __test__ = False  # not a test of pytest's
    path = "own-environments/{environment}/test"
    parameters = NAME

    @Operation("Test an environment of yours again.", status=202)
    async def on_post(self, environment: str) -> StartedTests:
        """In jobs of yours, without GPUs and on each type of GPU."""
        async with self.audited("test-environment", f"environment {environment}", self.person.name):
            tests = await self.parts.own.test(environment, self.person)
        return StartedTests(items=tuple(tests))


ENDPOINTS: tuple[type[Endpoint], ...] = (
    OwnEnvironmentsEndpoint,
    OneOwnEnvironment,
    TestOwnEnvironment,
)
