"""What of the catalog is offered: only what is known to work."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from clusters import node, pool, snapshot
from machine_clock import awake

from portal.catalog import EnvironmentCatalog
from portal.catalog.availability import Offer, mark_of, offer_of
from portal.errors import NotAllowed, NotFound, StoreUnavailable
from portal.launch.policy import decide
from portal.launch.request import Asked
from portal.models.catalog.catalog import Verdict
from portal.models.catalog.environment import Environment, refusals_of
from portal.models.person import Person
from portal.models.session.resources import Resources
from portal.store import Store

ADA, GRACE = Person(name="ada"), Person(name="grace", admin=True)
CONTAINER = {"name": "torch", "title": "Torch", "kind": "container", "image": "/srv/torch.sif"}
VENV = {"name": "python", "title": "Python", "kind": "venv", "path": "/opt/python"}


def environment(base: dict[str, Any] = CONTAINER, **more: Any) -> Environment:
    return Environment.model_validate({**base, **more})


def verdict(gpu_type: str = "", passed: bool = True, **more: Any) -> Verdict:
    words = {"fingerprint": "f", "message": "" if passed else "No kernel answers.", "at": 1.0}
    return Verdict.model_validate({**words, "gpu_type": gpu_type, "passed": passed, **more})


def offer(one: Environment, *verdicts: Verdict, mark: tuple[int, int] | None = None) -> Offer:
    return offer_of(one, {found.gpu_type: found for found in verdicts}, mark)


def offered(one: Environment, *verdicts: Verdict) -> Environment:
    found = offer(one, *verdicts)
    assert found.environment is not None, found.reason
    return found.environment


def test_a_container_waits_for_its_test() -> None:
    assert offer(environment()) == Offer(None, "Not tested yet.")
    assert offer(environment(), verdict("v100")).environment is None, "no test without GPUs"
    failed = offer(environment(), verdict(passed=False))
    assert failed == Offer(None, "The test failed: No kernel answers.")


def test_a_container_is_offered_on_the_gpus_where_it_passed() -> None:
    found = offered(environment(), verdict(), verdict("v100"), verdict("t4", passed=False))
    assert found.gpu_types == ("v100",)
    assert refusals_of(found) == {
        "t4": "'Torch' does not work on t4 GPUs: its test failed there. No kernel answers."
    }


def test_a_container_that_passed_nowhere_on_gpus_has_none() -> None:
    found = offered(environment(gpu_types=["v100", "t4"]), verdict(), verdict("t4", passed=False))
    assert (found.gpu_types, found.max_gpus) == ((), 0)
    assert "has not been tested on v100 GPUs yet" in refusals_of(found)["v100"]
    assert "does not work on t4" in refusals_of(found)["t4"]


def test_gpus_without_a_type() -> None:
    found = offered(environment(), verdict(), verdict("gpu"))
    assert (found.gpu_types, found.max_gpus) == ((), None)


def test_what_the_site_changes_in_place_is_offered_until_it_fails() -> None:
    one = environment(VENV)
    assert offer(one).environment is one
    assert offer(one, verdict(passed=False)).environment is None
    narrowed = offered(environment(VENV, gpu_types=["v100", "t4"]), verdict("t4", passed=False))
    assert narrowed.gpu_types == ("v100",)
    # A type that the environment is not for says nothing.
    assert refusals_of(offered(environment(VENV, gpu_types=["v100"]), verdict("t4", False))) == {}


def test_what_a_person_registered_waits_for_its_test_whatever_it_is() -> None:
    assert offer(environment(VENV, private=True, owner="ada")).environment is None


def test_what_a_persons_test_says_holds_for_that_person_alone() -> None:
    public, own = environment(VENV), environment(VENV, private=True, owner="ada")
    others = environment(VENV, private=True, owner="barbara")
    assert len({one.fingerprint for one in (public, own, others)}) == 3
    assert public.fingerprint == environment(VENV, title="Other", groups=["g"]).fingerprint


def test_an_image_that_was_changed_is_not_offered() -> None:
    known = verdict(mark=(10, 20))
    assert offer(environment(), known, mark=(10, 20)).environment is not None
    assert offer(environment(), known, mark=None).environment is not None, "not seen from here"
    assert "changed after its last test" in offer(environment(), known, mark=(10, 21)).reason


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"state": "withdrawn", "message": "Too old."}, "Withdrawn. Too old."),
        ({"state": "draft"}, "The state in its file is 'draft'."),
        ({"image": None, "source": "docker://r.example/a:1"}, "No image yet"),
    ],
)
def test_what_its_file_closes(more: dict[str, Any], reason: str) -> None:
    found = offer(environment(**more), verdict())
    assert found.environment is None
    assert found.reason.startswith(reason)


def test_deprecated_is_offered() -> None:
    found = offered(environment(state="deprecated", message="Use 25.10."), verdict())
    assert (found.state, found.message) == ("deprecated", "Use 25.10.")


# -- the launch ------------------------------------------------------------------------------


def launch(one: Environment, **options: Any) -> Resources:
    cluster = snapshot(node("gpu01", pool(4)), node("gpu02", pool(2, type="t4")))
    asked = Asked.parse({"environment": one.name, **options})
    request = decide(asked, ADA, {one.name: one}, cluster, None, NO)
    return request.resources


NO = Resources()


def test_a_launch_names_why_a_gpu_type_is_refused() -> None:
    found = offered(environment(), verdict(), verdict("v100"), verdict("t4", passed=False))
    with pytest.raises(NotAllowed, match=r"does not work on t4 GPUs.*No kernel answers"):
        launch(found, gpus=1, gpu_type="t4")
    assert launch(found, gpus=1).gpu_type == "v100", "any type is one that passed"
    venv = offered(environment(VENV), verdict("t4", passed=False))
    assert launch(venv, gpus=1).gpu_type == "v100"


def test_any_type_stays_any_where_all_passed() -> None:
    found = offered(environment(), verdict(), verdict("v100"), verdict("t4"))
    assert launch(found, gpus=1).gpu_type is None


# -- the catalog -----------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for folder in ("files", "kept/own", "kept/previews"):
        (tmp_path / folder).mkdir(parents=True)
    image = tmp_path / "torch.sif"
    image.write_bytes(b"sif")
    write(tmp_path / "files", f"name: torch\ntitle: Torch\nkind: container\nimage: {image}\n")
    return tmp_path


def write(folder: Path, text: str) -> None:
    name = text.split("\n", 1)[0].removeprefix("name: ")
    (folder / f"{name}.yaml").write_text(text)


def catalog_of(files: Path, store: Store | None, **more: Any) -> EnvironmentCatalog:
    made = EnvironmentCatalog(
        store=store,
        directory=str(files / "files"),
        kept_directory=str(files / "kept"),
        verdicts_age=0.1,
        timeout=60,
        **more,
    )
    made.offering.known.patience = 60
    return made


async def judged(store: Store, catalog: EnvironmentCatalog, name: str, **more: Any) -> None:
    one = catalog.environments[name]
    mark = mark_of(one.image or "")
    await store.tests.save_verdict(verdict(fingerprint=one.fingerprint, mark=mark, **more))
    catalog.offering.forget()
    await catalog.load()


def names(catalog: EnvironmentCatalog, person: Person) -> list[str]:
    return [one.name for one in catalog.visible_to(person)]


async def test_the_catalog_offers_what_passed(files: Path, store: Store) -> None:
    catalog = catalog_of(files, store)
    await catalog.load()
    assert names(catalog, ADA) == []
    assert catalog.offers["torch"].reason == "Not tested yet."
    with pytest.raises(NotFound):
        catalog.get("torch", ADA)
    await judged(store, catalog, "torch")
    assert names(catalog, ADA) == ["torch"]
    assert catalog.get("torch", ADA).name == "torch"
    (files / "torch.sif").write_bytes(b"another one")
    catalog.offering.forget()
    await catalog.load()
    assert names(catalog, ADA) == []


@pytest.mark.parametrize("forgotten", [False, True], ids=["", "and forgotten again"])
async def test_what_was_tested_while_the_database_was_asked_is_seen(
    files: Path, store: Store, monkeypatch: pytest.MonkeyPatch, forgotten: bool
) -> None:
    catalog = catalog_of(files, store)
    await catalog.load()
    outcomes, asked, go_on = store.tests.outcomes, asyncio.Event(), asyncio.Event()

    async def late() -> Any:
        found = await outcomes()
        asked.set()
        await go_on.wait()
        return found

    monkeypatch.setattr(store.tests, "outcomes", late)
    catalog.offering.forget()
    before = asyncio.ensure_future(catalog.load())
    await asked.wait()
    monkeypatch.setattr(store.tests, "outcomes", outcomes)
    await asyncio.wait_for(judged(store, catalog, "torch"), 30)
    assert names(catalog, ADA) == ["torch"]
    if forgotten:  # something more was tested, and nobody has asked since
        catalog.offering.forget()
    go_on.set()  # the older answer comes last
    await before
    assert names(catalog, ADA) == ["torch"]


async def test_without_a_store_or_where_the_site_says_so_all_is_offered(
    files: Path, store: Store
) -> None:
    for catalog in (catalog_of(files, None), catalog_of(files, store, offer_untested=True)):
        await catalog.load()
        assert names(catalog, ADA) == ["torch"]
        torch = catalog.environments["torch"]
        assert catalog.offering.gpu_types(torch, {"v100", "t4"}) == ["t4", "v100"]


async def test_what_was_known_stays_while_the_database_is_away(
    files: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog, late = catalog_of(files, store), catalog_of(files, store)
    await catalog.load()
    await judged(store, catalog, "torch")

    async def away() -> Any:
        raise StoreUnavailable("away")

    monkeypatch.setattr(store.tests, "outcomes", away)
    catalog.offering.forget()
    await catalog.load()
    assert names(catalog, ADA) == ["torch"]
    await late.load()
    assert names(late, ADA) == []
    assert "does not answer" in late.offers["torch"].reason


async def test_many_who_ask_at_once_share_one_question(
    files: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog, asked = catalog_of(files, store), 0
    whole = store.tests.outcomes

    async def counted() -> Any:
        nonlocal asked
        asked += 1
        return await whole()

    monkeypatch.setattr(store.tests, "outcomes", counted)
    catalog.offering.known.ttl = 60
    for _ in range(5):
        await asyncio.gather(*(catalog.load() for _ in range(20)))
    assert asked == 1


async def test_private_ones_are_their_owners_alone(files: Path, store: Store) -> None:
    own = "title: Mine\nkind: venv\npath: /home/ada/v\nprivate: true\nowner: ada\n"
    write(files / "kept/own", f"name: ada.mine\n{own}")
    catalog = catalog_of(files, store)
    await catalog.load()
    assert names(catalog, ADA) == [], "not before its test"
    await judged(store, catalog, "ada.mine")
    assert names(catalog, ADA) == ["ada.mine"]
    assert names(catalog, GRACE) == []
    with pytest.raises(NotFound, match=r"There is no environment 'ada\.mine'"):
        catalog.get("ada.mine", GRACE)


async def test_only_private_ones_count_in_the_folder_of_own_ones(files: Path, store: Store) -> None:
    write(files / "kept/own", "name: all.see\ntitle: All\nkind: venv\npath: /v\n")
    write(files / "kept/previews", "name: other\ntitle: Other\nkind: venv\npath: /v\n")
    catalog = catalog_of(files, store)
    await catalog.load()
    assert set(catalog.environments) == {"torch"}
    assert len(catalog.errors) == 2


@pytest.mark.parametrize("folder", ["files", "kept/previews"])
async def test_nobody_registers_something_for_somebody_else(
    files: Path, store: Store, folder: str
) -> None:
    """Its test would run as that person, without their asking."""
    own = "title: Mine\nkind: venv\npath: /tmp/evil\nprivate: true\nowner: ada\n"
    write(files / folder, f"name: x.preview\n{own}")
    catalog = catalog_of(files, store)
    await catalog.load()
    assert set(catalog.environments) == {"torch"}
    (error,) = catalog.errors
    assert "'private' is only for environments that users register" in error.message


async def test_previews_are_for_admins(files: Path, store: Store) -> None:
    write(files / "kept/previews", "name: torch.preview\ntitle: Next\nkind: venv\npath: /v\n")
    catalog = catalog_of(files, store)
    await catalog.load()
    assert names(catalog, ADA) == []
    assert names(catalog, GRACE) == ["torch.preview"]


async def test_courses_see_theirs(files: Path, store: Store) -> None:
    write(files / "files", "name: ml\ntitle: ML\nkind: venv\npath: /v\ncourses: [ml-2026]\n")
    catalog = catalog_of(files, store)
    await catalog.load()
    assert names(catalog, ADA) == []
    assert names(catalog, Person(name="ada", groups=("course-ml-2026",))) == ["ml"]


async def test_two_hundred_environments_cost_milliseconds(files: Path, store: Store) -> None:
    for number in range(199):
        image = files / f"{number}.sif"
        image.write_bytes(b"sif")
        text = f"title: T{number}\nkind: container\nimage: {image}\ntags: [a, b]\n"
        write(files / "files", f"name: e{number}\n{text}description: {'word ' * 200}\n")
    catalog = catalog_of(files, store)
    await catalog.load()
    for one in catalog.environments.values():
        for kind in ("", "v100", "t4"):
            mark = mark_of(one.image or "")
            await store.tests.save_verdict(
                verdict(
                    kind, fingerprint=one.fingerprint, mark=mark, facts={"packages": ["a"] * 99}
                )
            )
    catalog.offering.forget()
    catalog.offering.known.ttl = 3.0
    taken = []
    for _ in range(60):
        began = awake()
        await catalog.load()
        assert len(catalog.visible_to(ADA)) == 200
        taken.append(awake() - began)
    taken.sort()
    print(f"p50 {1000 * taken[30]:.1f} ms, p95 {1000 * taken[56]:.1f} ms")
    # CPUs of test machines are shared: a tenth of a second is the limit of the whole page.
    assert taken[56] < 0.1 or os.getloadavg()[0] > 2 * (os.cpu_count() or 1)
