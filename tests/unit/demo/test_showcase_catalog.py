"""The thread that makes the demo's frameworks: what it asks of the service, and when not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from portal.demo.showcase import catalog
from portal.demo.showcase.catalog import FrameworkThread
from portal.demo.showcase.frameworks import FRAMEWORKS, Framework
from portal.errors import NotFound, PortalError, Unavailable
from portal.paths import data_path

NAMES = [framework.name for framework in FRAMEWORKS]


class Service:
    """The portal's service: each build passes at the next question unless ``ends`` says else."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.definitions: dict[str, dict[str, Any]] = {}
        self.versions: dict[str, dict[str, Any]] = {}
        self.ends: dict[str, str] = {}
        self.silent = 0  # questions that are not answered

    def get(self, path: str) -> Any:
        if self.silent:
            self.silent -= 1
            raise Unavailable("The portal's service does not answer.")
        _, name, _, *number = path.split("/")
        if name not in self.versions:
            raise NotFound(f"Environment '{name}' has no versions.")
        version = self.versions[name]
        if not number:
            return {"items": [version]}
        if version["state"] == "building":
            version["state"] = self.ends.get(name, "draft")
        return dict(version, message="No such package.")

    def put(self, path: str, body: Any) -> Any:
        self.asked.append(path)
        version = self.versions[path.split("/")[1]]
        assert body["base"] == version["number"]
        version |= {"number": version["number"] + 1, "environment": body["definition"]}
        return version

    def post(self, path: str, body: Any = None) -> Any:
        self.asked.append(path)
        _, *rest = path.split("/")
        if not rest:
            name = body["definition"]["name"]
            self.definitions[name] = body["definition"]
            self.versions[name] = {
                "name": name,
                "number": 1,
                "state": "draft",
                "message": "",
                "published_at": None,
                "environment": body["definition"],
            }
            return self.versions[name]
        if rest[-1] == "build":
            self.versions[rest[0]]["state"] = "building"
        if rest[-1] == "publish":
            self.versions[rest[0]] |= {"state": "ready", "published_at": 1.0}
        return {}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the base images that were made."""
    names: list[str] = []

    def base_image(framework: Framework, *_: Any) -> Path:
        names.append(framework.name)
        return Path(f"/cache/{framework.name}.sif")

    monkeypatch.setattr(catalog, "base_image", base_image)
    monkeypatch.setattr(catalog, "_PAUSE", 0.0)
    return names


def run(service: Service, tmp_path: Path) -> list[str]:
    """Run the thread's work; return what it said."""
    said: list[str] = []
    FrameworkThread(
        data_path("deploy") / "demo/showcase",
        tmp_path,
        Path("/apptainer"),
        service,  # type: ignore[arg-type]
        tmp_path / "frameworks.json",
        said.append,
        simulated_gpus=True,
    ).run()
    return said


def record(tmp_path: Path) -> list[str]:
    file = tmp_path / "frameworks.json"
    return json.loads(file.read_text()) if file.exists() else []


def test_each_is_drafted_built_and_published(made: list[str], tmp_path: Path) -> None:
    service = Service()
    said = run(service, tmp_path)
    assert made == NAMES == record(tmp_path)
    assert service.asked == [
        path
        for steps in (("", "/{}/versions/1/build"), ("/{}/versions/1/publish",))
        for name in NAMES
        for path in (f"environments{step.format(name)}" for step in steps)
    ]
    for name in NAMES:
        assert service.definitions[name]["source"] == f"/cache/{name}.sif"
        assert service.definitions[name]["max_gpus"] == (4 if name == "pytorch-cpu" else 0)
        assert any(name in words and "offered" in words for words in said)


def test_what_was_published_once_is_not_made_again(made: list[str], tmp_path: Path) -> None:
    (tmp_path / "frameworks.json").write_text(json.dumps(NAMES))
    service = Service()
    assert run(service, tmp_path) == []
    assert service.asked == [] and made == []


def test_a_failure_is_told_and_the_next_start_tries_again(made: list[str], tmp_path: Path) -> None:
    service = Service()
    service.ends[NAMES[0]] = "failed"
    said = run(service, tmp_path)
    assert said[0] == f"environment {NAMES[0]}: No such package."
    assert record(tmp_path) == NAMES[1:]
    service.ends.clear()
    service.asked.clear()
    run(service, tmp_path)
    assert service.asked[0] == f"environments/{NAMES[0]}/versions/1/build"  # no second draft
    assert set(record(tmp_path)) == set(NAMES)


@pytest.mark.parametrize("end", ["draft", "failed"])
def test_a_build_of_the_start_before_is_waited_for(
    made: list[str], tmp_path: Path, end: str
) -> None:
    service = Service()
    name = NAMES[0]
    source = f"/cache/{name}.sif"
    service.post("environments", {"definition": {"name": name, "source": source}})
    service.versions[name]["state"] = "building"
    service.ends[name] = end
    service.asked.clear()
    wait = Service.post

    def built(path: str, body: Any = None) -> Any:
        service.ends.clear()  # the build of this start passes
        return wait(service, path, body)

    service.post = built  # type: ignore[method-assign]
    run(service, tmp_path)
    asked = [path for path in service.asked if name in path]
    assert asked == [f"environments/{name}/versions/1/{step}" for step in ("build", "publish")]
    assert record(tmp_path) == NAMES


def test_a_hub_that_restarts_meanwhile_ends_nothing(made: list[str], tmp_path: Path) -> None:
    service = Service()

    def built(path: str, body: Any = None) -> Any:
        answer = Service.post(service, path, body)
        service.silent = 3 if path.endswith("build") else 0
        return answer

    service.post = built  # type: ignore[method-assign]
    run(service, tmp_path)
    assert record(tmp_path) == NAMES


def test_a_mirror_without_the_packages_is_told(
    made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: Any) -> Path:
        raise PortalError("Cannot fetch python3: the mirror does not answer.")

    monkeypatch.setattr(catalog, "base_image", missing)
    service = Service()
    said = run(service, tmp_path)
    assert [words.split(":")[0] for words in said] == [f"environment {name}" for name in NAMES]
    assert service.asked == [] and record(tmp_path) == []


def test_a_draft_of_another_recipe_gets_the_new_image(made: list[str], tmp_path: Path) -> None:
    service = Service()
    name = NAMES[0]
    service.post("environments", {"definition": {"name": name, "source": "/cache/older.sif"}})
    service.asked.clear()
    run(service, tmp_path)
    asked = [path for path in service.asked if name in path]
    assert asked == [
        f"environments/{name}",
        f"environments/{name}/versions/2/build",
        f"environments/{name}/versions/2/publish",
    ]
    assert service.versions[name]["environment"]["source"] == f"/cache/{name}.sif"
