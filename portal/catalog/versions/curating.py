"""Curator: changes of admins to the catalog, from the first draft to the last withdrawal."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from traitlets.config import LoggingConfigurable

from portal.errors import Conflict, InvalidRequest, NotFound
from portal.models.catalog.catalog import EnvironmentVersion, Origin
from portal.models.catalog.environment import (
    Audience,
    Environment,
    EnvironmentKind,
    EnvironmentState,
)
from portal.periodic import Periodic
from portal.store import Store

from ..definitions.reading import Reading, check_definition
from ..definitions.yaml_text import yaml_text
from ..files import PREVIEW, EnvironmentCatalog
from .history import FILE_STATES, FileHistory, Note
from .publishing import EditConflict, Publisher, demand_image, demand_ready

_AS_BEFORE = Audience()
_BUILT = {"image", "digest", "server", "python"}  # what a build of ``source`` fills in


class Curator(LoggingConfigurable):
    """Curator of the catalog: drafts, publishing, withdrawal and history. One per service.

    Every method raises StoreUnavailable; those that write files CatalogNotWritable, Unavailable.
    """

    sync_interval = 10.0  # seconds between checks for files that were edited by hand

    def __init__(
        self, catalog: EnvironmentCatalog, store: Store, note: Note, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self._catalog, self._store = catalog, store
        self._history = FileHistory(catalog, store, note)
        self._publisher = Publisher(catalog, store)
        self._one = asyncio.Lock()  # whoever changes the catalog does it alone

    async def run(self) -> None:
        """Record changes made by hand, for ever."""
        await Periodic(
            "The catalog file check", self.sync, lambda _: self.sync_interval, self.log
        ).run()

    async def sync(self) -> dict[str, EnvironmentVersion]:
        """Record changes of the files now; return the published versions, by name."""
        async with self._one:
            return await self._history.sync()

    def check(self, definition: dict[str, Any]) -> Reading:
        """Check a definition from a page; return the environment, or what is wrong with it."""
        return check_definition(definition, self._catalog.rules)

    # -- drafts ----------------------------------------------------------------------------------

    async def create(
        self, definition: dict[str, Any], author: str, comment: str = ""
    ) -> EnvironmentVersion:
        """Add the first version of a new environment. Raises InvalidRequest; EditConflict if one
        of this name is or was there."""
        environment = self._valid(definition)
        async with self._one:
            await self._history.sync()
            newest = await self._newest(environment.name)
            if newest is not None:
                raise EditConflict(
                    f"Environment '{environment.name}' already exists. Edit it, or choose "
                    "another name.",
                    newest,
                    environment,
                )
            return await self._add(environment, author, comment, None)

    async def save(
        self, name: str, definition: dict[str, Any], base: int, author: str, comment: str = ""
    ) -> EnvironmentVersion:
        """Add a version of ``name``, edited from version ``base``; return the newest if nothing
        differs. Raises InvalidRequest, NotFound, EditConflict."""
        environment = self._valid(definition)
        if environment.name != name:
            raise InvalidRequest(
                f"The name of '{name}' cannot be changed to '{environment.name}'. Create a new "
                "environment instead.",
                "name",
            )
        async with self._one:
            await self._history.sync()
            newest = await self._newest(name)
            if newest is None:
                raise NotFound(f"There is no environment '{name}'.")
            if newest.number != base:
                raise EditConflict(
                    f"'{name}' was changed by {newest.author or 'another user'} in the "
                    f"meantime: you edited version {base}, the newest is {newest.number}. Your "
                    "text is kept. Compare both, then save again, based on the newest.",
                    newest,
                    environment,
                )
            if yaml_text(environment) == yaml_text(newest.environment):
                return newest
            return await self._add(environment, author, comment, newest)

    async def _add(
        self, environment: Environment, author: str, comment: str, base: EnvironmentVersion | None
    ) -> EnvironmentVersion:
        before = base.environment if base else None
        if before and environment.source != before.source and environment.image == before.image:
            # The image was built from another source: the fields of that build are dropped.
            values = environment.model_dump(exclude=_BUILT, exclude_unset=True)
            environment = Environment.model_validate(values)
        return await self._store.versions.add_version(
            environment,
            author=author,
            at=time.time(),
            origin=Origin.PAGE,
            state=await self._first_state(environment),
            comment=comment,
            base=base.number if base else None,
        )

    async def _first_state(self, environment: Environment) -> EnvironmentState:
        """Return READY if this very software has passed its test already, else DRAFT."""
        if environment.kind is EnvironmentKind.CONTAINER and environment.image:
            verdicts = (await self._store.tests.verdicts()).get(environment.fingerprint, {})
            if "" in verdicts and verdicts[""].passed:
                return EnvironmentState.READY
        return EnvironmentState.DRAFT

    def _valid(self, definition: dict[str, Any]) -> Environment:
        reading = self.check(definition)
        if reading.environment is None:
            first = reading.errors[0]
            more = len(reading.errors) - 1
            rest = f" ({more} more)" if more else ""
            raise InvalidRequest(f"{first.message}{rest}.", first.field or None)
        environment = reading.environment
        if environment.private:
            raise InvalidRequest(
                "'private' is only for environments that users register themselves.", "private"
            )
        if environment.state not in FILE_STATES:
            states = ", ".join(sorted(FILE_STATES))
            raise InvalidRequest(f"'state' of a definition must be one of {states}.", "state")
        if environment.name.endswith(PREVIEW):
            raise InvalidRequest(
                f"'name': names with '{PREVIEW}' are reserved for previews.", "name"
            )
        if len(yaml_text(environment).encode()) > self._catalog.max_size:
            raise InvalidRequest(f"The definition is longer than {self._catalog.max_size} bytes.")
        return environment

    async def _newest(self, name: str) -> EnvironmentVersion | None:
        versions, _ = await self._store.versions.of_environment(name, limit=1)
        return versions[0] if versions else None

    # -- what people see -------------------------------------------------------------------------

    async def publish(
        self, name: str, number: int, by: str, audience: Audience = _AS_BEFORE
    ) -> EnvironmentVersion:
        """Publish a version to its ``audience``. Raises NotFound; Conflict if it is not tested;
        EditConflict if it was not edited from the published version."""
        async with self._one:
            published = (await self._history.sync()).get(name)
            version = await self._store.versions.get(name, number)
            demand_ready(version)
            if published is not None:
                await self._publisher.demand_descent(version, published)
            update: dict[str, Any] = {**audience.values()}
            if version.environment.state is EnvironmentState.WITHDRAWN:
                update |= {"state": "ready", "message": ""}
            environment = self._altered(version.environment, **update)
            if version.published_at is None:
                return await self._publisher.publish(version, environment, is_new=False)
            if yaml_text(environment) == yaml_text(version.environment):
                return version  # it is what people see already
            new_version = await self._add_tested(
                environment, by, f"Version {number} with changed visibility.", number
            )
            return await self._publisher.publish(new_version, environment, is_new=True)

    async def rollback(self, name: str, number: int, by: str) -> EnvironmentVersion:
        """Publish the content of version ``number`` again, as a new version. Raises NotFound;
        Conflict if that was never ready, or its image is gone."""
        async with self._one:
            published = (await self._history.sync()).get(name)
            old = await self._store.versions.get(name, number)
            if old.published_at is None:
                demand_ready(old)
            if published is not None and published.number == number:
                raise Conflict(f"Version {number} of '{name}' is already published.")
            await demand_image(old.environment)
            environment = self._altered(old.environment, state="ready", message="")
            base = published.number if published else None
            new_version = await self._add_tested(
                environment, by, f"Rolled back to version {number}.", base
            )
            return await self._publisher.publish(new_version, environment, is_new=True)

    async def turn(
        self, name: str, state: EnvironmentState, message: str, by: str
    ) -> EnvironmentVersion:
        """Set the state of a published environment. READY: offered as before. DEPRECATED: offered
        with ``message``, which says what to use instead. WITHDRAWN: no longer offered; running
        sessions go on. Raises NotFound, Conflict."""
        async with self._one:
            published = (await self._history.sync()).get(name)
            if published is None:
                raise NotFound(f"Environment '{name[:63]}' has no published version.")
            before = published.environment
            if (before.state, before.message) == (state, message):
                raise Conflict(f"'{name}' is already {state.value}.")
            if state is not EnvironmentState.WITHDRAWN:
                await demand_image(before)
            environment = self._altered(before, state=state.value, message=message)
            comment = message or f"State set to {state.value}."
            new_version = await self._add_tested(environment, by, comment, published.number)
            return await self._publisher.publish(new_version, environment, is_new=True)

    async def preview(self, name: str, number: int) -> Environment:
        """Let admins launch a tested version before it is published; return what they launch.
        Raises NotFound; Conflict if it is not tested."""
        async with self._one:
            version = await self._store.versions.get(name, number)
            demand_ready(version)
            return await self._publisher.preview(version)

    async def _add_tested(
        self, environment: Environment, author: str, comment: str, base: int | None
    ) -> EnvironmentVersion:
        """Add a version with the software of one that was already published."""
        return await self._store.versions.add_version(
            environment,
            author=author,
            at=time.time(),
            origin=Origin.PAGE,
            state=environment.state,
            comment=comment,
            base=base,
        )

    def _altered(self, environment: Environment, **values: Any) -> Environment:
        return self._valid(environment.model_dump(mode="json", exclude_unset=True) | values)
