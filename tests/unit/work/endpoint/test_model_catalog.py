"""Catalog of models: what its files may say, who is offered what, and the results of tests."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import yaml

from portal.catalog import EnvironmentCatalog
from portal.errors import NotFound
from portal.models.person import Person
from portal.store import Store
from portal.work.endpoint.bodies import Source, WantedVersion
from portal.work.endpoint.catalog.files import ModelCatalog, read_model
from portal.work.endpoint.catalog.items import ModelView
from portal.work.endpoint.catalog.testing import ModelTests
from portal.work.endpoint.models import Endpoint, EndpointReplica, EndpointVersion
from portal.work.endpoint.tables import EndpointReplicaTable, EndpointTable, EndpointVersionTable

MODEL = {
    "name": "echo",
    "title": "Echo",
    "environment": "lab",
    "command": ["{python}", "-m", "echo", "{socket}"],
    "example": {"path": "/v1/echo", "method": "POST", "body": {"say": "hi"}, "contains": "hi"},
    "resources": {"cpus": 2, "memory": "1G"},
}
LAB = {"name": "lab", "title": "Lab", "kind": "venv", "path": "/opt/lab"}
ADA = Person(name="ada", groups=("students",))


def read(**changed: Any) -> tuple[Any, list[str]]:
    values = {key: value for key, value in {**MODEL, **changed}.items() if value is not None}
    model, errors = read_model(yaml.safe_dump(values, sort_keys=False).encode(), "echo.yaml")
    return model, [str(error) for error in errors]


def test_a_file_defines_a_model() -> None:
    model, errors = read()
    assert not errors
    assert model.resources.given() == {"cpus": 2, "memory": 1024}
    assert model.folder == "~" and model.health == "/health"


@pytest.mark.parametrize(
    ("changed", "line", "words"),
    [
        ({"titel": "Echo"}, 18, "'titel' is not a known key; did you mean 'title'?"),
        ({"example": None}, 1, "'example' is missing"),
        ({"name": "Echo"}, 1, "'name': must be at most 30 lowercase letters, digits and dashes"),
        ({"name": "e" * 31}, 1, "'name': must be at most 30"),
        (
            {"command": ["serve", "--port=8000"]},
            4,
            "'command': 'command' must listen on '{socket}'",
        ),
        ({"resources": {"nodes": 2}}, 15, "'nodes' must be 1"),
        ({"resources": {"memory": "lots"}}, 16, "must be a size such as 32G or 512M"),
        ({"example": {"path": "v1"}}, 10, "'example.path' must begin with '/'"),
        ({"folder": "weights"}, 18, "'folder' must begin with '/' or '~'"),
    ],
)
def test_a_wrong_file_is_named_with_line_and_key(
    changed: dict[str, Any], line: int, words: str
) -> None:
    model, errors = read(**changed)
    assert model is None
    assert errors[0].startswith(f"echo.yaml:{line}: ") and words in errors[0], errors


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    for name, values in (("models", MODEL), ("environments", LAB)):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{values['name']}.yaml").write_text(yaml.safe_dump(values))
    return tmp_path


@pytest.fixture
def environments(folders: Path) -> EnvironmentCatalog:
    catalog = EnvironmentCatalog(
        directory=str(folders / "environments"), kept_directory=str(folders / "kept")
    )
    catalog.offering.untested = True
    return catalog


async def test_files_are_read_again_once_they_change(folders: Path) -> None:
    models = ModelCatalog(str(folders / "models"))
    await models.load()
    assert list(models.models) == ["echo"] and not models.errors
    (folders / "models" / "echo.yaml").write_text(yaml.safe_dump({**MODEL, "title": "Once more"}))
    (folders / "models" / "same.yml").write_text(yaml.safe_dump(MODEL))
    (folders / "models" / "bad.yaml").write_text("name: [")
    await models.load()
    assert models.models["echo"].title == "Once more"
    assert {error.file for error in models.errors} == {"bad.yaml", "same.yml"}
    (folders / "models" / "echo.yaml").unlink()
    await models.load()
    assert models.models["echo"].title == "Echo", "the other file has the name now"


async def test_a_site_without_the_folder_has_no_models(tmp_path: Path) -> None:
    models = ModelCatalog(str(tmp_path / "none"))
    await models.load()
    assert models.models == {} and models.errors == ()


class Catalog:
    """Catalog with one model, and the endpoint that tries it."""

    def __init__(self, folders: Path, environments: EnvironmentCatalog, store: Store) -> None:
        self.folder, self.environments, self.store = folders / "models", environments, store
        self.models = ModelCatalog(str(self.folder))
        self.changes = 0

    async def view(self, person: Person = ADA) -> ModelView:
        view = ModelView(self.models, self.environments, self.store, person)
        await view.ask()
        return view

    async def problem(self, person: Person = ADA) -> str:
        (item,) = (await self.view(person)).items()
        assert item.offered is (item.problem == "")
        return item.problem

    async def begin_test(self) -> EndpointVersion:
        view = await self.view()
        source = {"model": "echo", "fingerprint": view.fingerprint(view.known("echo"))}
        table = self.store.table(EndpointVersionTable)
        return await table.add_version(
            EndpointVersion(
                endpoint="catalog-echo", number=0, created_at=1.0, source=source,
                environment="lab", command=("x", "{socket}"),
            )
        )  # fmt: skip

    async def replica(self, test: EndpointVersion, ready_at: float | None) -> None:
        await self.store.table(EndpointReplicaTable).add_replica(
            EndpointReplica(
                user="grace", id=f"r{test.number}", endpoint=test.endpoint, version=test.number,
                environment="lab", command=test.command, created_at=1.0, ready_at=ready_at,
            )
        )  # fmt: skip

    async def record(self) -> None:
        def change() -> None:
            self.changes += 1

        await ModelTests(self.store, change, logging.getLogger()).record(2.0)


@pytest.fixture
async def catalog(folders: Path, environments: EnvironmentCatalog, store: Store) -> Catalog:
    new = Endpoint(name="catalog-echo", user="grace", created_at=1.0, shares={"1": 100})
    await store.table(EndpointTable).add_endpoint(new)
    return Catalog(folders, environments, store)


async def test_a_model_is_offered_once_its_test_has_passed(catalog: Catalog) -> None:
    assert await catalog.problem() == "It was not tested yet."
    with pytest.raises(NotFound, match="not tested yet"):
        (await catalog.view()).get("echo")
    test = await catalog.begin_test()
    await catalog.replica(test, ready_at=None)
    await catalog.record()
    assert await catalog.problem() == "Its test is under way." and catalog.changes == 0

    await catalog.store.table(EndpointReplicaTable).change("grace", "r1", ready_at=1.5)
    await catalog.record()
    assert await catalog.problem() == "" and catalog.changes == 1
    assert (await catalog.store.table(EndpointTable).get("catalog-echo")).shares == {}
    again = await catalog.begin_test()
    assert await catalog.problem() == "", "the last result stands while it is tried again"

    table = catalog.store.table(EndpointVersionTable)
    await table.change(again.endpoint, again.number, failures=1, problem="No memory.")
    await catalog.record()
    assert await catalog.problem() == "Its test failed. No memory."


async def test_a_result_holds_for_what_was_tried(catalog: Catalog, folders: Path) -> None:
    test = await catalog.begin_test()
    await catalog.replica(test, ready_at=1.5)
    await catalog.record()
    file = folders / "models" / "echo.yaml"
    file.write_text(yaml.safe_dump({**MODEL, "description": "More words."}))
    assert await catalog.problem() == ""
    file.write_text(yaml.safe_dump({**MODEL, "command": ["other", "{socket}"]}))
    assert "changed after its test" in await catalog.problem()
    file.write_text(yaml.safe_dump(MODEL))
    assert await catalog.problem() == ""
    lab = folders / "environments" / "lab.yaml"
    lab.write_text(yaml.safe_dump({**LAB, "path": "/opt/new"}))
    assert "changed after its test" in await catalog.problem()
    lab.unlink()
    assert await catalog.problem() == "You have no environment 'lab', in which it runs."


async def test_a_version_of_a_user_is_no_test(catalog: Catalog) -> None:
    """A version has the keys of a test only if a test wrote them."""
    assert not {"fingerprint", "result"} & set(Source.model_fields)
    table = catalog.store.table(EndpointVersionTable)
    forged = EndpointVersion(
        endpoint="echo", number=0, created_at=1.0, environment="lab", command=("x", "{socket}"),
        source={"fingerprint": "x", "result": "passed"},
    )  # fmt: skip
    await table.add_version(forged)
    assert await table.beginning("catalog-") == []
    assert await catalog.problem() == "It was not tested yet."


async def test_groups_see_their_models_only(catalog: Catalog, folders: Path) -> None:
    file = folders / "models" / "echo.yaml"
    file.write_text(yaml.safe_dump({**MODEL, "groups": ["lab", "course-ml"]}))
    assert (await catalog.view()).items() == []
    with pytest.raises(NotFound, match="no model 'echo'"):
        (await catalog.view()).known("echo")
    member = Person(name="barbara", groups=("course-ml",))
    assert [item.name for item in (await catalog.view(member)).items()] == ["echo"]


async def test_a_version_has_what_it_does_not_name_from_the_model(catalog: Catalog) -> None:
    test = await catalog.begin_test()
    await catalog.replica(test, ready_at=1.5)
    await catalog.record()
    wanted = WantedVersion(source=Source(model="echo"), cpus=1, share=10)
    version = await (await catalog.view()).completed(wanted)
    assert version.environment == "lab" and version.command[-1] == "{socket}"
    assert (version.cpus, str(version.memory), version.share) == (1, "1G", 10)
    assert version.example is not None and version.example.contains == "hi"
    plain = WantedVersion(environment="lab")
    assert await (await catalog.view()).completed(plain) is plain
