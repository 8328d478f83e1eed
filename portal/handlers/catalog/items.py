"""Items of the catalog for the API, with what only those who manage environments see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from portal.catalog.definitions.yaml_text import definition_of, yaml_text
from portal.catalog.offers.benchmarks import measured
from portal.errors import NotFound, StoreUnavailable
from portal.models.catalog.catalog import EnvironmentTest, EnvironmentVersion, Verdict
from portal.models.catalog.environment import Audience, Environment
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
    from portal.assembly import Services

# The Hub calls everyone with an admin's token an admin, even if that token is restricted, e.g. to
# reading metrics. One of these scopes shows that it is not: the first is the Hub's own, the second
# also comes with a login in a browser.
_ADMINS = ("admin:users", NODES_MANAGE)
_PUBLIC = {
    "name", "title", "kind", "message", "description", "icon", "tags", "digest", "server",
    "kernels", "starters", "gpu_types", "min_driver", "min_cuda", "private", "owner",
}  # fmt: skip
_MANAGED = {*Audience.model_fields, "image", "path", "modules"}
_HISTORY = 20  # versions


def as_seen_by_catalog(person: Person) -> Person:
    """Return the person with the rights over the catalog that this login or token has.

    Whoever manages environments sees as an admin does.
    """
    admin = person.may(ENVIRONMENTS_MANAGE) or (person.admin and any(map(person.may, _ADMINS)))
    return person if admin == person.admin else person.model_copy(update={"admin": admin})


class CatalogView:
    """View of the catalog for one person at one moment."""

    def __init__(self, parts: Services, person: Person) -> None:
        self.parts, self.person = parts, as_seen_by_catalog(person)
        self.favourites: frozenset[str] = frozenset()
        self.last_used: Mapping[str, float] = {}
        self.software: Mapping[str, Mapping[str, str]] = {}

    async def ask(self) -> None:
        """Query the database: two queries, however many environments there are.

        If it is down, favourites and the like are not known, and that is all.
        """
        store = self.parts.store
        try:
            self.favourites = frozenset(await store.favourites.of_user(self.person.name))
            self.last_used = await store.sessions.last_used(self.person.name)
        except StoreUnavailable:
            return
        self.software = await self.parts.software.versions(self.parts.catalog.offering.verdicts)

    def item(self, environment: Environment, **more: Any) -> EnvironmentItem:
        """Return an item of the list."""
        return EnvironmentItem(**self._values(environment), **more)

    async def detail_by_name(self, name: str) -> EnvironmentDetail:
        """Return all of the environment of this name.

        Its owner gets it even if it is not offered, those who manage environments also a draft.
        Raises NotFound, StoreUnavailable.
        """
        catalog, manages = self.parts.catalog, self.person.may(ENVIRONMENTS_MANAGE)
        await catalog.load()
        await self.ask()
        environment = catalog.environments.get(name)
        is_own = (
            environment is not None
            and environment.private
            and catalog.sees(self.person, environment)
        )
        if not (manages or is_own):
            return await self.detail(catalog.get(name, self.person))
        if environment is not None and catalog.sees(self.person, environment):
            offer = catalog.offers[name]
            return await self.detail(
                environment, offered=offer.environment is not None, reason=offer.reason
            )
        versions, _ = await self.parts.store.versions.of_environment(name, limit=1)
        if not versions or (environment is not None and environment.private):
            raise not_there(name)
        newest = versions[0]
        draft = newest.environment.model_copy(update={"state": newest.state})
        return await self.detail(draft, offered=False, reason="Not published.")

    async def detail(self, environment: Environment, **more: Any) -> EnvironmentDetail:
        """Return all of an environment. Raises StoreUnavailable."""
        store, name = self.parts.store, environment.name
        verdicts = await store.tests.verdicts_of(environment.fingerprint)
        facts = facts_of(verdicts)
        tests = await store.tests.newest(environment.fingerprint)
        users = self._users(name)
        if self.person.admin:
            more |= {
                "users": tuple(sorted(set(users))),
                "definition": definition_of(environment),
                "text": yaml_text(environment),
            }
            if not environment.private:
                more |= await self._history(name)
        return EnvironmentDetail(
            **self._values(environment) | {"versions": facts.versions},
            **more,
            distribution=facts.distribution,
            architecture=facts.architecture,
            packages=facts.packages,
            added=facts.added,
            tests=tuple(self._test(test) for _, test in sorted(tests.items())),
            measurements=measured(await store.measurements.of_environment(name)),
            sessions_now=len(users),
        )

    def _values(self, environment: Environment) -> dict[str, Any]:
        tested, name = self.parts.catalog.offering.tested(environment), environment.name
        mark = self.parts.catalog.offering.mark_of(environment)
        fields = _PUBLIC | _MANAGED if self.person.admin else _PUBLIC
        software = next((verdict.fingerprint for verdict in tested.values()), "")
        from_registry = environment.source is not None and environment.source.startswith(
            "docker://"
        )
        return {
            **environment.model_dump(include=fields),
            "state": environment.state,
            "source": environment.source if from_registry or self.person.admin else None,
            "size": mark[0] if mark else None,
            # All of it, since the response omits fields that are not set.
            "default": Resources(**environment.default.model_dump()),
            "limits": Limits(
                gpus=environment.max_gpus,
                cpus=environment.max_cpus,
                memory=environment.max_memory,
                time=environment.max_time,
            ),
            "versions": dict(self.software.get(software, {})),
            "favourite": name in self.favourites,
            "last_used": self.last_used.get(name),
            "tested_at": max((verdict.at for verdict in tested.values()), default=None),
            "preview": name in self.parts.catalog.previews,
        }

    def _users(self, name: str) -> list[str]:
        view = self.parts.dashboard.view
        records = view.sessions.values() if view else ()
        return [
            record.user
            for record in records
            if record.environment == name and record.ended_at is None
        ]

    async def _history(self, name: str) -> dict[str, Any]:
        versions, _ = await self.parts.store.versions.of_environment(name, limit=_HISTORY)
        now = (await self.parts.store.versions.published()).get(name)
        number = now.number if now else None
        return {
            "number": number,
            "history": tuple(version_item(version, number) for version in versions),
        }

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
    """Return a version as lists show it; ``published`` is the number that people see."""
    return VersionItem.like(version, published=version.number == published)


def facts_of(verdicts: Mapping[str, Verdict]) -> Facts:
    """Return what the tests of an environment have read.

    The facts are those without GPUs, and what only a node with GPUs could tell (the driver).
    """
    runs = [Facts.model_validate(verdicts[name].facts) for name in sorted(verdicts)]
    if not runs:
        return Facts()
    versions = {name: text for facts in reversed(runs) for name, text in facts.versions.items()}
    return runs[0].model_copy(update={"versions": versions})


def not_there(name: str) -> NotFound:
    """Return the error in the words of the catalog, whether there is none or it is hidden."""
    return NotFound(f"There is no environment '{name[:63]}' that you may use.")
