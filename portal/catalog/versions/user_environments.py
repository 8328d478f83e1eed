"""Environments that users register for themselves: an image or a virtual environment of theirs,
which only they see, and which must pass the same test as those of the catalog."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import unicodedata
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, StringConstraints, ValidationError, field_validator
from traitlets import Integer
from traitlets.config import LoggingConfigurable

from portal.errors import Conflict, InvalidRequest, NotAllowed, NotFound, PortalError
from portal.models import Frozen
from portal.models.catalog.catalog import EnvironmentTest
from portal.models.catalog.environment import AbsolutePath, Environment, EnvironmentKind, Server
from portal.models.catalog.image_job import LIVE
from portal.models.person import Person
from portal.models.plain_text import PLAIN_LINE
from portal.setting import setting
from portal.store import Store

from ..builds.scheduler import BuildScheduler
from ..definitions.problems import explained
from ..definitions.writing import remove_file, write_file
from ..definitions.yaml_text import yaml_text
from ..files import OWN, PREVIEW, EnvironmentCatalog

_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_LONGEST_USER = 31
_LOGS = 20  # kept of an environment: those of its newest tests
_MANY = 10_000
_LAST = 1000  # smaller orders stand before it on the launch page


class OwnDraft(Frozen):
    """Environment to be registered. ``path``: of a SIF file or sandbox directory (container), or
    of a virtual environment. ``server``: where a container's notebook server runs."""

    title: Annotated[
        str, StringConstraints(min_length=1, max_length=120, strip_whitespace=True), *PLAIN_LINE
    ]
    kind: EnvironmentKind
    path: AbsolutePath
    server: Server = Server.INSIDE
    description: Annotated[str, Field(max_length=2000)] = ""

    @field_validator("path")
    @classmethod
    def _no_steps(cls, value: str) -> str:
        if ".." in value.split("/"):
            raise ValueError("the path must not contain '..'")
        return value


class UserEnvironments(LoggingConfigurable):
    """Registration of users' own environments, if ``CatalogRules.own_environments`` allows it."""

    most = setting(
        Integer(5, min=1),
        "Maximum number of own environments that one user may register.",
        "c.UserEnvironments.most = 10",
    )

    def __init__(
        self,
        catalog: EnvironmentCatalog,
        store: Store,
        build_scheduler: BuildScheduler,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._catalog, self._store, self._build_scheduler = catalog, store, build_scheduler
        self._one = asyncio.Lock()

    async def of_user(self, person: Person) -> list[Environment]:
        """Return the person's own environments, whether they work or not."""
        await self._catalog.load()
        return [
            environment
            for environment in self._catalog.environments.values()
            if environment.private and environment.owner == person.name
        ]

    def refusal(self, person: Person) -> str:
        """Return why ``person`` may not register an environment; "" if they may."""
        if self._catalog.rules.may_register(person):
            return ""
        return (
            "This site does not let you register your own environments. Request an environment for "
            "the catalog instead."
        )

    async def register(self, draft: OwnDraft, person: Person) -> Environment:
        """Register an environment and test it as this person, to whom it is offered if it passes.

        Raises InvalidRequest, NotAllowed, Conflict, Unavailable.
        """
        refusal = self.refusal(person)
        if refusal:
            raise NotAllowed(refusal)
        async with self._one:
            own_environments = await self.of_user(person)
            if len(own_environments) >= self.most:
                raise Conflict(
                    f"You have registered {len(own_environments)} environments; the maximum is "
                    f"{self.most}. Remove one first."
                )
            environment = self._made(draft, person)
            if environment.name in self._catalog.environments:
                raise Conflict(f"You already have an environment '{draft.title}'.")
            path = self._path(environment.name)
            await asyncio.to_thread(path.parent.mkdir, 0o755, True, True)
            await asyncio.to_thread(write_file, path, yaml_text(environment), "")
            await self._catalog.load()
        try:
            await self._build_scheduler.test(environment, None, None, person.name)
        except PortalError as error:  # the scheduler tries again by itself
            self.log.warning("The test of %s is delayed: %s", environment.name, error)
        return environment

    async def test(self, name: str, person: Person) -> list[EnvironmentTest]:
        """Test a registered environment again. Raises NotFound, Conflict, SlurmUnavailable."""
        environment = await self._own(name, person)
        older, _ = await self._store.tests.of_environment(name, _LOGS, _MANY)
        await self._build_scheduler.remove_logs(
            test.log for test in older if test.state not in LIVE
        )
        return await self._build_scheduler.test(environment, None, None, person.name)

    async def remove(self, name: str, person: Person) -> None:
        """Remove a registered environment, but no file of the person's. Raises NotFound,
        Unavailable, SlurmUnavailable; it is still there then."""
        environment = await self._own(name, person)
        async with self._one:
            for test in await self._store.tests.live():
                if test.fingerprint == environment.fingerprint and test.name == name:
                    with contextlib.suppress(Conflict):  # it ended while others were cancelled
                        await self._build_scheduler.cancel_test(test.id, person.name)
            await asyncio.to_thread(remove_file, self._path(name))
            # Without its file, nothing tells that its tests are one person's alone.
            tests, _ = await self._store.tests.of_environment(name, 0, _MANY)
            await self._store.tests.forget(name)
            await self._build_scheduler.remove_logs(row.log for row in tests)
            await self._catalog.load()

    async def tests(self, environment: Environment) -> dict[str, EnvironmentTest]:
        """Return the newest tests of the environment, by GPU type."""
        newest = await self._store.tests.newest(environment.fingerprint)
        return {
            gpu_type: test for gpu_type, test in newest.items() if test.name == environment.name
        }

    def reason(self, environment: Environment) -> str:
        """Return why the environment cannot be launched now; "" if it can."""
        offer = self._catalog.offers.get(environment.name)
        return offer.reason if offer is not None else "This environment no longer exists."

    async def live(self, environment: Environment) -> bool:
        """Return True if the environment is being tested."""
        return any(test.state in LIVE for test in (await self.tests(environment)).values())

    async def _own(self, name: str, person: Person) -> Environment:
        for environment in await self.of_user(person):
            if environment.name == name:
                return environment
        raise NotFound(f"You have no environment '{name[:63]}'.")

    def _path(self, name: str) -> Path:
        return Path(self._catalog.kept_directory) / OWN / f"{name}.yaml"

    def _made(self, draft: OwnDraft, person: Person) -> Environment:
        """Build the catalog entry. Raises InvalidRequest."""
        if draft.kind is EnvironmentKind.MODULES:
            raise InvalidRequest(
                "Only a 'container' or a 'venv' can be registered. The site provides modules."
            )
        values: dict[str, Any] = {
            "name": own_name(person.name, draft.title),
            "title": draft.title,
            "kind": draft.kind,
            "image" if draft.kind is EnvironmentKind.CONTAINER else "path": draft.path,
            "private": True,
            "owner": person.name,
            "order": _LAST,
        }
        if draft.description:
            values["description"] = draft.description
        if draft.kind is EnvironmentKind.CONTAINER and draft.server is not Server.INSIDE:
            values["server"] = draft.server
        try:
            environment = Environment.model_validate(values)
        except ValidationError as error:
            first = explained(error)[0]
            raise InvalidRequest(f"{first.message}.", first.field or None) from None
        broken = self._catalog.rules.problems(environment)
        if broken:
            raise InvalidRequest(f"{broken[0].message}.", broken[0].field or None)
        return environment


def own_name(person: str, title: str) -> str:
    """Return ``USER.TITLE`` as a valid name of a catalog entry. A user's name that has to be
    changed gets a piece of its hash, so that no two users ever share a name."""
    user = _plain(person)
    if user != person or len(user) > _LONGEST_USER:
        mark = hashlib.sha256(person.encode()).hexdigest()[:8]
        user = f"{user[: _LONGEST_USER - 9].strip('-')}-{mark}".lstrip("-")
    name = _plain(title)[:30].strip("-") or hashlib.sha256(title.encode()).hexdigest()[:8]
    if f".{name}" == PREVIEW:
        name = f"{name}-1"
    return f"{user}.{name}"


def _plain(text: str) -> str:
    letters = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return _NOT_IN_NAMES.sub("-", letters).strip("-")
