"""``api/v1/environments/validate``, and changes to a published environment."""

from __future__ import annotations

import asyncio
import functools
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from portal.catalog import CatalogError
from portal.catalog.definitions.reading import read_definition
from portal.catalog.definitions.yaml_text import definition_of, document_text, yaml_text
from portal.errors import InvalidRequest
from portal.models import Frozen
from portal.models.audit import AuditAction
from portal.models.catalog.catalog import EnvironmentVersion
from portal.models.catalog.environment import EnvironmentState
from portal.models.plain_text import PLAIN_TEXT
from portal.models.scope import ENVIRONMENTS_MANAGE

from ..base.action import Action
from ..base.endpoint import Endpoint, Operation

Comment = Annotated[str, StringConstraints(max_length=1000, strip_whitespace=True), *PLAIN_TEXT]
Number = Annotated[int, Field(ge=1, le=2**31 - 1)]
CuratorOperation = functools.partial(Operation, scope=ENVIRONMENTS_MANAGE)
NAME = {"environment": "[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?"}


class NewEnvironment(Frozen):
    """New environment: ``definition`` has the keys of its file, ``comment`` says why."""

    definition: dict[str, Any]
    comment: Comment = ""


class Edit(NewEnvironment):
    """Edited environment. ``base`` is the number of the version that was edited."""

    base: Number


class Text(Frozen):
    """Definition to check: its keys and values, or the YAML text of a file."""

    definition: dict[str, Any] | None = None
    text: Annotated[str, StringConstraints(max_length=1_000_000)] | None = None


class Validation(Frozen):
    """Problems of a definition; ``definition`` and ``text`` in the portal's order and form.

    If there are problems, both are as they were given; ``definition`` is null if a text was given.
    """

    problems: tuple[CatalogError, ...]
    definition: dict[str, Any] | None
    text: str


class Message(Frozen):
    """Message that people read about an environment."""

    message: Annotated[
        str, StringConstraints(min_length=1, max_length=1000, strip_whitespace=True), *PLAIN_TEXT
    ]


class PublishedVersion(Frozen):
    """Version to publish again, by ``number``."""

    number: Number


class Validate(Endpoint):
    """Check of a definition; changes nothing."""

    path = "environments/validate"

    @CuratorOperation("Validate a definition.", body=Text)
    async def on_post(self) -> Validation:
        """Give either 'definition' or 'text'. Problems are the answer, not an error."""
        body: Text = self.body
        if (body.definition is None) == (body.text is None):
            raise InvalidRequest("Give either 'definition' or 'text'.", "definition")
        return await asyncio.to_thread(self._validated, body)

    def _validated(self, body: Text) -> Validation:
        catalog, given = self.parts.catalog, body.definition
        if body.text is not None:
            raw = body.text.encode(errors="surrogatepass")
            reading = read_definition(raw, "", catalog.rules, catalog.max_size)
        else:
            reading = self.parts.curator.check(given or {})
        environment = reading.environment
        if environment is not None:
            return Validation(
                problems=(), definition=definition_of(environment), text=yaml_text(environment)
            )
        text = body.text if body.text is not None else _text_of(given or {})
        return Validation(problems=reading.errors, definition=given, text=text)


def _text_of(values: dict[str, Any]) -> str:
    try:
        return document_text(values)
    except (ValueError, RecursionError):
        return ""


_ACTIONS = {
    EnvironmentState.READY: AuditAction.OFFER_ENVIRONMENT_AGAIN,
    EnvironmentState.DEPRECATED: AuditAction.DEPRECATE_ENVIRONMENT,
    EnvironmentState.WITHDRAWN: AuditAction.WITHDRAW_ENVIRONMENT,
}


class EnvironmentChange(Action):
    """Base class of endpoints that publish another state of an environment."""

    async def turned(self, name: str, state: EnvironmentState, message: str) -> EnvironmentVersion:
        """Publish the state, and record it in the audit log."""
        async with self.audited(_ACTIONS[state], f"environment {name}", detail=message):
            return await self.parts.curator.turn(name, state, message, self.person.name)


_change = functools.partial(CuratorOperation, errors=(409,))


class Rollback(EnvironmentChange):
    """Rollback to an earlier version."""

    path = "environments/{environment}/rollback"
    parameters = NAME

    @_change("Publish an earlier version again.", body=PublishedVersion)
    async def on_post(self, environment: str) -> EnvironmentVersion:
        """Copy that version to a new one, and publish it."""
        number = self.body.number
        detail = f"Rolled back to version {number}."
        async with self.audited(
            AuditAction.ROLL_BACK_ENVIRONMENT, f"environment {environment}", detail=detail
        ):
            return await self.parts.curator.rollback(environment, number, self.person.name)


class Deprecate(EnvironmentChange):
    """Deprecation: offered with a message."""

    path = "environments/{environment}/deprecate"
    parameters = NAME

    @_change(
        "Deprecate an environment, with a message that says what to use instead.", body=Message
    )
    async def on_post(self, environment: str) -> EnvironmentVersion:
        """Mark it as deprecated; it can still be launched."""
        return await self.turned(environment, EnvironmentState.DEPRECATED, self.body.message)


class Withdraw(EnvironmentChange):
    """Withdrawal: no longer offered."""

    path = "environments/{environment}/withdraw"
    parameters = NAME

    @_change("Withdraw an environment.", body=Message)
    async def on_post(self, environment: str) -> EnvironmentVersion:
        """Leave sessions that run in it as they are."""
        return await self.turned(environment, EnvironmentState.WITHDRAWN, self.body.message)


class OfferAgain(EnvironmentChange):
    """Renewed offer, as before."""

    path = "environments/{environment}/offer-again"
    parameters = NAME

    @_change("Offer a deprecated or withdrawn environment again.")
    async def on_post(self, environment: str) -> EnvironmentVersion:
        """Remove its message, too."""
        return await self.turned(environment, EnvironmentState.READY, "")


ENDPOINTS = (Validate, Rollback, Deprecate, Withdraw, OfferAgain)
