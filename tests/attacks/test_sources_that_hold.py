"""FIFOs, devices and large files in the place of what a run reads: nothing waits for them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from portal_session.runs import RunError
from portal_session.runs.execution.drift import drift_of
from portal_session.runs.execution.repetition import make_repetition
from portal_session.runs.execution.task import Origin, Task
from portal_session.runs.local_modules import local_modules
from portal_session.runs.plan import freeze, frozen_points
from portal_session.runs.points import read_list
from portal_session.runs.search.repeated import frozen_search
from portal_session.runs.source import read_source

NO_FILE = "cannot be read: It is not a regular file."
ID = "5e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162"


@pytest.mark.parametrize("name", ["train.py", "train.ipynb"])
def test_a_source(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(RunError, match=NO_FILE):
        read_source(tmp_path / name)
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(RunError, match=NO_FILE):
        read_source(tmp_path / name)


def test_a_module_next_to_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import helper\n")
    os.mkfifo(tmp_path / "helper.py")
    with pytest.raises(RunError, match=r"The module '.*/helper.py' cannot be read: It is not a"):
        local_modules(read_source(tmp_path / "train.py"), tmp_path)


def test_a_module_that_is_too_large(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import helper\n")
    with (tmp_path / "helper.py").open("wb") as file:
        file.truncate(50 * 1024 * 1024)
    with pytest.raises(RunError, match="more than 20 MB"):
        local_modules(read_source(tmp_path / "train.py"), tmp_path)


def test_a_list_of_points(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "points.csv")
    with pytest.raises(RunError, match=NO_FILE):
        read_list(tmp_path / "points.csv", None)


@pytest.mark.parametrize("name", ["run.json", "source.py", "modules/helper.py"])
def test_a_shared_run(tmp_path: Path, name: str) -> None:
    (tmp_path / "train.py").write_text("import helper\n")
    (tmp_path / "helper.py").write_text("")
    plan = freeze(read_source(tmp_path / "train.py"), [{}], "train")
    (plan.folder / name).unlink()
    os.mkfifo(plan.folder / name)
    origin = Origin(plan.id, "ada", plan.folder)
    task = Task(ID, "train-2", tmp_path / "mine/train-2", 0, 1, "123_0", origin=origin,
                code_digest=plan.code_digest)  # fmt: skip
    with pytest.raises(RunError, match=rf"repeated as it was\. .*{name} {NO_FILE}"):
        make_repetition(task)
    if name == "run.json":
        assert frozen_points(plan.folder) == [] and frozen_search(plan.folder) is None


def test_the_manifest_of_a_shared_run_s_point(tmp_path: Path) -> None:
    (tmp_path / "theirs/0000").mkdir(parents=True)
    os.mkfifo(tmp_path / "theirs/0000/manifest.json")
    (tmp_path / "run.json").write_text(json.dumps({"id": ID}))
    origin = Origin(ID, "ada", tmp_path / "theirs")
    said = drift_of(Task(ID, "train-2", tmp_path, 0, 1, "123_0", origin=origin), {})
    assert said == ["The original point has no readable manifest to compare with."]
