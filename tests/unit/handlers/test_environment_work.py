"""What leads from versions to builds, tests and packages, with a real database."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from portal.errors import InvalidRequest, NotFound, TooManyRequests
from portal.handlers.base.paging import PageQuery
from portal.handlers.catalog.comparison import ComparisonQuery, VersionComparison
from portal.handlers.catalog.tests import OneTest, TestEvents, Tests
from portal.handlers.catalog.work import Reference, ResolveImage, TestsOfVersion, VersionsOfBuild
from portal.models import scope
from portal.models.catalog.catalog import Origin, Verdict
from portal.models.catalog.environment import Environment
from portal.models.catalog.image import ResolvedImage
from portal.models.catalog.image_job import Facts, WorkState
from portal.models.person import Person
from portal.store import Store

DIGEST = "sha256:" + "a" * 64


def asked(kind: type, store: Store, **values: Any) -> Any:
    """An endpoint as the service calls it, without a request around it."""
    parts = SimpleNamespace(store=store, **values.pop("parts", {}))
    made = type(kind.__name__, (kind,), {"parts": parts, "__init__": lambda self: None})()
    made.__dict__.update(values)
    return made


def container(**more: Any) -> Environment:
    values = {"name": "torch", "title": "Torch", "kind": "container", "image": "/a.sif"}
    return Environment.model_validate(values | more)


async def version(store: Store, **more: Any) -> int:
    found = container(**more)
    made = await store.versions.add_version(found, author="grace", at=1.0, origin=Origin.PAGE)
    return made.number


async def build(store: Store, *packages: str) -> int:
    made = await store.builds.add_build(
        key="k", source="docker://a.io/b:1", digest=DIGEST, asker="grace", nonce="", log="", at=1.0
    )  # fmt: skip
    result = {"facts": Facts(packages=packages).model_dump(mode="json")}
    await store.builds.change(made.id, result=result)
    return made.id


async def compared(store: Store, old: int, new: int) -> Any:
    query = ComparisonQuery(old=old, new=new)
    return await asked(VersionComparison, store, query=query).on_get("torch")


async def test_versions_are_compared_with_the_packages_of_their_builds(store: Store) -> None:
    await version(store, title="One")
    await version(store, title="Two", image="/b.sif")
    first, second = (
        await build(store, "numpy==1.0", "a==1"),
        await build(store, "numpy==2.0", "a==1"),
    )
    await store.versions.change("torch", 1, build_id=first)
    await store.versions.change("torch", 2, build_id=second)
    found = await compared(store, 1, 2)
    assert [(one.name, one.old, one.new) for one in found.packages] == [("numpy", "1.0", "2.0")]
    assert [line.text for line in found.lines if line.change == "added"] == [
        "title: Two",
        "image: /b.sif",
    ]
    with pytest.raises(NotFound, match="no version 3"):
        await compared(store, 1, 3)


async def test_packages_of_what_was_tested_only_and_of_what_nobody_knows(store: Store) -> None:
    await version(store)
    await version(store, image="/b.sif")
    assert (await compared(store, 1, 2)).packages is None
    for image, package in (("/a.sif", "a==1"), ("/b.sif", "a==2")):
        verdict = Verdict(
            fingerprint=container(image=image).fingerprint,
            gpu_type="",
            passed=True,
            message="",
            at=1.0,
            facts=Facts(packages=(package,)).model_dump(mode="json"),
        )
        await store.tests.save_verdict(verdict)
    found = await compared(store, 1, 2)
    assert [(one.old, one.new) for one in found.packages] == [("1", "2")]
    # A build that is forgotten is no reason to say nothing.
    await store.versions.change("torch", 1, build_id=99)
    assert (await compared(store, 1, 2)).packages is not None


async def test_a_build_knows_its_versions(store: Store) -> None:
    await version(store)
    await version(store, image="/b.sif")
    number = await build(store)
    for which in (1, 2):
        await store.versions.change("torch", which, build_id=number)
    found = await asked(VersionsOfBuild, store).on_get(str(number))
    assert [one.number for one in found.items] == [1, 2]
    assert (await asked(VersionsOfBuild, store).on_get("77")).items == ()


async def test_a_version_has_the_tests_of_its_software(store: Store) -> None:
    await version(store)
    await version(store, title="Another title")
    await version(store, image="/b.sif")
    for gpu_type in ("v100", "", "v100"):
        await store.tests.add_test(
            fingerprint=container().fingerprint, name="torch", number=1, gpu_type=gpu_type,
            asker="grace", nonce="n", log="l", at=1.0,
        )  # fmt: skip
    for number, tests in (("1", [("", 2), ("v100", 3)]), ("2", [("", 2), ("v100", 3)]), ("3", [])):
        found = await asked(TestsOfVersion, store).on_get("torch", number)
        assert [(one.gpu_type, one.id) for one in found.items] == tests
    with pytest.raises(NotFound):
        await asked(TestsOfVersion, store).on_get("torch", "4")


async def test_nobody_sees_the_tests_of_what_another_registered(store: Store) -> None:
    own = container(name="ada.mine", private=True, owner="ada")
    names = ("torch", "ada.mine")
    for name in names:
        await store.tests.add_test(
            fingerprint="f", name=name, number=None, gpu_type="", asker="ada", nonce="n", log="l",
            at=1.0,
        )  # fmt: skip

    async def load() -> None:
        pass

    catalog = SimpleNamespace(load=load, environments={"torch": container(), own.name: own})

    def by(name: str, kind: type, *scopes: str, **values: Any) -> Any:
        person = Person(name=name, scopes=frozenset(scopes))
        return asked(kind, store, parts={"catalog": catalog}, person=person, **values)

    page = PageQuery(limit=50)
    found = await by("grace", Tests, scope.ENVIRONMENTS_MANAGE, query=page).on_get()
    assert [one.name for one in found.items] == ["torch"] and found.total == 1
    assert (await by("grace", OneTest, scope.ENVIRONMENTS_MANAGE).on_get("1")).name == "torch"
    assert (await by("ada", OneTest).on_get("2")).name == "ada.mine"
    for name, number, rights in (
        ("grace", "2", [scope.ENVIRONMENTS_MANAGE]),
        ("barbara", "2", []),
        ("ada", "1", []),
    ):
        with pytest.raises(NotFound, match=f"no test {number}"):
            await by(name, OneTest, *rights).on_get(number)
    # Once it is removed, nothing tells any more whose it was.
    await store.tests.change(2, state=WorkState.PASSED)
    await store.tests.forget("ada.mine")
    with pytest.raises(NotFound):
        await store.tests.get(2)


async def test_a_reference_is_asked_for_with_what_is_known_of_registries(store: Store) -> None:
    seen: list[Any] = []

    async def resolve(source: Any, kept: Any) -> ResolvedImage:
        seen.append((str(source), list(kept)))
        return ResolvedImage(digest=DIGEST, architecture="amd64", size=7)

    build_scheduler = SimpleNamespace(registries=SimpleNamespace(resolve=resolve))

    async def ask(text: str) -> ResolvedImage:
        body = Reference(source=text)
        found: ResolvedImage = await asked(
            ResolveImage, store, body=body, parts={"build_scheduler": build_scheduler}
        ).on_post()
        return found

    assert (await ask(" docker://nvcr.io/nvidia/pytorch:25.10-py3 ")).digest == DIGEST
    assert seen == [("docker://nvcr.io/nvidia/pytorch:25.10-py3", [])]
    with pytest.raises(InvalidRequest, match="is neither docker://"):
        await ask("nvcr.io/nvidia/pytorch")


async def test_nobody_takes_all_the_places_for_logs(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stream(name: str) -> Any:
        values = {"person": SimpleNamespace(name=name), "work": opened}
        application = SimpleNamespace(settings={"ending": asyncio.Event()})
        request = SimpleNamespace(method="HEAD")
        more = {"application": application, "request": request, "finish": done, "set_header": done}
        return asked(TestEvents, store, **values, **more)

    async def opened(id: str) -> None:
        pass

    def done(*words: str) -> None:
        pass

    monkeypatch.setattr(TestEvents, "_open", {stream("ada") for _ in range(5)})
    with pytest.raises(TooManyRequests):
        await stream("ada").stream("1")
    await stream("grace").stream("1")
