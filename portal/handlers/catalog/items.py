"""What is shown of environments, and of what only to those who manage them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from portal.catalog.definitions.yaml_text import definition_of, yaml_text
from portal.catalog.offers.benchmarks import measured
from portal.errors import NotFound, StoreUnavailable
from portal.models.catalog.catalog import EnvironmentTest, EnvironmentVersion, Verdict
from portal.models.catalog.environment import Environment
from portal.models.catalog.environment_item import (
    EnvironmentDetail,
    EnvironmentItem,
    Limits,
    TestItem,
    VersionItem,
)
from portal.models.catalog.image_job import Facts, TestResult
from portal.models.person import Person
from portal.models.scope import ENVIRONMENTS_MANAGE, NODES_MANAGE
from portal.models.session.resources import Resources

if TYPE_CHECKING:
    from portal.services.services import Parts

# The Hub calls everyone with an admin's token an admin, also where that token was made to do
# little, e.g. to read metrics. One of these scopes says that it was not: the first is the Hub's
# own, the second also comes with a login in a browser.
_ADMINS = ("admin:users", NODES_MANAGE)
_PUBLIC = {
    "name", "title", "kind", "message", "description", "icon", "tags", "digest", "server",
    "kernels", "starters", "gpu_types", "min_driver", "min_cuda", "private", "owner",
}  # fmt: skip
_MANAGED = {"groups", "courses", "image", "path", "modules"}
_HISTORY = 20  # versions


def as_seen_by_catalog(person: Person) -> Person:
    """The person with the rights over the catalog that this login or token has: who manages
    environments sees as an admin does."""
    admin = person.may(ENVIRONMENTS_MANAGE) or (person.admin and any(map(person.may, _ADMINS)))
    return person if admin == person.admin else person.model_copy(update={"admin": admin})


class Shown:
    """One person's view of the catalog at one moment."""

    def __init__(self, parts: Parts, person: Person) -> None:
        self.parts, self.person = parts, as_seen_by_catalog(person)
        self.favourites: frozenset[str] = frozenset()
        self.last_used: Mapping[str, float] = {}
        self.software: Mapping[str, Mapping[str, str]] = {}

    async def ask(self) -> None:
        """Ask the database what it knows: two questions, however many environments there are.
        While it is away, favourites and the like are not known, and that is all."""
        store = self.parts.store
        try:
            self.favourites = frozenset(await store.favourites.of(self.person.name))
            self.last_used = await store.sessions.last_used(self.person.name)
        except StoreUnavailable:
            return
        self.software = await self.parts.software.versions(self.parts.catalog.offering.verdicts)

    def item(self, found: Environment, **more: Any) -> EnvironmentItem:
        """One item of the list."""
        return EnvironmentItem(**self._values(found), **more)

    async def one(self, name: str) -> EnvironmentDetail:
        """Everything of the environment of this name; for its owner also where it is not offered,
        for those who manage environments a draft, too. Raises NotFound, StoreUnavailable."""
        catalog, manages = self.parts.catalog, self.person.may(ENVIRONMENTS_MANAGE)
        await catalog.load()
        await self.ask()
        found = catalog.environments.get(name)
        mine = found is not None and found.private and catalog.sees(self.person, found)
        if not (manages or mine):
            return await self.detail(catalog.get(name, self.person))
        if found is not None and catalog.sees(self.person, found):
            offer = catalog.offers[name]
            return await self.detail(
                found, offered=offer.environment is not None, reason=offer.reason
            )
        versions, _ = await self.parts.store.versions.of(name, limit=1)
        if not versions or (found is not None and found.private):
            raise not_there(name)
        newest = versions[0]
        draft = newest.environment.model_copy(update={"state": newest.state})
        return await self.detail(draft, offered=False, reason="It is not published.")

    async def detail(self, found: Environment, **more: Any) -> EnvironmentDetail:
        """Everything of one environment. Raises StoreUnavailable."""
        store, name = self.parts.store, found.name
        verdicts = await store.tests.verdicts_of(found.fingerprint)
        facts = facts_of(verdicts)
        tests = await store.tests.newest(found.fingerprint)
        users = self._users(name)
        if self.person.admin:
            more |= {
                "users": tuple(sorted(set(users))),
                "definition": definition_of(found),
                "text": yaml_text(found),
            }
            if not found.private:
                more |= await self._history(name)
        return EnvironmentDetail(
            **self._values(found) | {"versions": facts.versions},
            **more,
            distribution=facts.distribution,
            architecture=facts.architecture,
            packages=facts.packages,
            added=facts.added,
            tests=tuple(self._test(one) for _, one in sorted(tests.items())),
            measurements=measured(await store.measurements.of(name)),
            sessions_now=len(users),
        )

    def _values(self, found: Environment) -> dict[str, Any]:
        tested, name = self.parts.catalog.offering.tested(found), found.name
        mark = self.parts.catalog.offering.mark_of(found)
        shown = _PUBLIC | _MANAGED if self.person.admin else _PUBLIC
        software = next((one.fingerprint for one in tested.values()), "")
        from_registry = found.source is not None and found.source.startswith("docker://")
        return {
            **found.model_dump(include=shown),
            "state": found.state,
            "source": found.source if from_registry or self.person.admin else None,
            "size": mark[0] if mark else None,
            # All of it, since the answer leaves out what is not set.
            "default": Resources(**found.default.model_dump()),
            "limits": Limits(
                gpus=found.max_gpus,
                cpus=found.max_cpus,
                memory=found.max_memory,
                time=found.max_time,
            ),
            "versions": dict(self.software.get(software, {})),
            "favourite": name in self.favourites,
            "last_used": self.last_used.get(name),
            "tested_at": max((one.at for one in tested.values()), default=None),
            "preview": name in self.parts.catalog.previews,
        }

    def _users(self, name: str) -> list[str]:
        view = self.parts.dashboard.view
        records = view.sessions.values() if view else ()
        return [one.user for one in records if one.environment == name and one.ended_at is None]

    async def _history(self, name: str) -> dict[str, Any]:
        found, _ = await self.parts.store.versions.of(name, limit=_HISTORY)
        now = (await self.parts.store.versions.published()).get(name)
        number = now.number if now else None
        return {"number": number, "history": tuple(version_item(one, number) for one in found)}

    def _test(self, test: EnvironmentTest) -> TestItem:
        result = TestResult.model_validate(test.result) if test.result else None
        known: dict[str, Any] = {}
        if result is not None:
            known = {
                "gpus": result.gpus,
                "simulated": result.simulated,
                "server_seconds": result.server_seconds,
                "kernels": result.kernels,
                "versions": result.facts.versions,
            }
        if self.person.admin:
            known |= {"id": test.id, "asker": test.asker}
        return TestItem(
            gpu_type=test.gpu_type,
            state=test.state,
            message=test.message,
            at=test.ended_at or test.started_at or test.asked_at,
            **known,
        )


def version_item(version: EnvironmentVersion, published: int | None) -> VersionItem:
    """A version as lists show it; ``published`` is the number of the one that people see."""
    values = version.model_dump(include=set(VersionItem.model_fields) - {"published"})
    return VersionItem(**values, published=version.number == published)


def facts_of(verdicts: Mapping[str, Verdict]) -> Facts:
    """What the tests of one environment have read: without GPUs, and what only a node with GPUs
    could tell (the driver) from one of those."""
    found = [Facts.model_validate(verdicts[name].facts) for name in sorted(verdicts)]
    if not found:
        return Facts()
    versions = {name: text for one in reversed(found) for name, text in one.versions.items()}
    return found[0].model_copy(update={"versions": versions})


def not_there(name: str) -> NotFound:
    """In the words of the catalog, whether there is none or it is not for this person."""
    return NotFound(f"There is no environment '{name[:63]}' that you may use.")
