"""Frozen runs: their folder is new, whole or not there."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from portal_session.runs import RunError, plan
from portal_session.runs.kernel_choice import kernel_for
from portal_session.runs.plan import check_name, freeze, name_after
from portal_session.runs.source import Source, read_source


@pytest.fixture(autouse=True)
def no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "git_state", lambda folder: None)


@pytest.fixture
def source(tmp_path: Path) -> Source:
    (tmp_path / "train.py").write_text("print('é')\n")
    return read_source(tmp_path / "train.py")


def test_a_run_is_frozen_beside_its_source(source: Source, tmp_path: Path) -> None:
    made = freeze(source, [{"lr": 0.1}], "first", environment="pytorch", resources={"gpus": 1})
    assert made.folder == tmp_path / "runs/first" and (made.name, made.points) == ("first", 1)
    assert (made.folder / "source.py").read_bytes() == source.content
    content = json.loads((made.folder / "run.json").read_text())
    assert content["sha256"] == hashlib.sha256(source.content).hexdigest()
    assert content["points"] == [{"lr": 0.1}] and content["resources"] == {"gpus": 1}
    assert content["source"] == str(source.path) and content["id"] == made.id
    assert sorted(path.name for path in made.folder.iterdir()) == ["run.json", "source.py"]


def test_a_name_that_is_taken_gets_a_number(source: Source, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/first").write_text("a file")
    (tmp_path / "runs/first-2").symlink_to("/nowhere")
    assert [freeze(source, [{}], "first").name for _ in range(2)] == ["first-3", "first-4"]
    assert (tmp_path / "runs/first").read_text() == "a file"
    long = "x" * 60
    assert [freeze(source, [{}], long).name for _ in range(2)] == [long, "x" * 58 + "-2"]


def test_a_refused_run_leaves_nothing(source: Source, tmp_path: Path) -> None:
    other = freeze(source, [{}], "first")
    freeze(source, [{}], "second").remove()
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["first"]
    other.remove()
    assert not (tmp_path / "runs").exists()


def test_a_full_disk_leaves_nothing(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match=r"cannot be written to .*first: No space left on device"):
        freeze(source, [{}], "first")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("where", ["git_state", "_write"])
def test_an_interrupt_leaves_nothing(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def interrupt(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(plan, where, interrupt)
    with pytest.raises(KeyboardInterrupt):
        freeze(source, [{}], "first")
    assert not (tmp_path / "runs").exists()


def test_runs_may_be_a_file(source: Source, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    with pytest.raises(RunError, match="is a file; runs need a folder of this name"):
        freeze(source, [{}], "first")


def test_a_folder_that_is_a_link_is_named_as_it_is(source: Source, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    made = freeze(read_source(tmp_path / "link/train.py"), [{}], "first")
    assert made.folder == tmp_path / "runs/first"


def test_a_path_that_the_portal_does_not_take(tmp_path: Path) -> None:
    odd = tmp_path / "a\nb"
    odd.mkdir()
    (odd / "train.py").write_text("")
    with pytest.raises(RunError, match="cannot be printed"):
        freeze(read_source(odd / "train.py"), [{}], "first")
    assert [path.name for path in odd.iterdir()] == ["train.py"]


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "/etc", "-x", ".x", "a b", "a\n", "x" * 61, "é", "$(x)"]
)
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(RunError, match="is not a valid name of a run"):
        check_name(name)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("train.ipynb", "train"),
        ("My model (v2).ipynb", "My-model-v2"),
        ("..hidden.py", "hidden"),
        ("--.py", "run"),
        ("日本.py", "run"),
        ("x" * 200 + ".py", "x" * 60),
    ],
)
def test_the_name_after_a_file(file: str, name: str) -> None:
    assert name_after(Path(file)) == check_name(name) == name


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        ("train.txt", "neither a notebook"),
        ("gone.py", "There is no file"),
        ("folder.py", "cannot be read: Is a directory"),
    ],
)
def test_sources_that_are_refused(tmp_path: Path, file: str, sentence: str) -> None:
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "train.txt").write_text("")
    with pytest.raises(RunError, match=sentence):
        read_source(tmp_path / file)


def _with_kernel(tmp_path: Path, name: str) -> Source:
    path = tmp_path / "n.ipynb"
    path.write_text(json.dumps({"cells": [], "metadata": {"kernelspec": {"name": name}}}))
    return read_source(path)


def test_the_kernel_behind_a_job_kernel(tmp_path: Path, source: Source) -> None:
    folder = tmp_path / "specs"
    (folder / "kernels/job-x").mkdir(parents=True)
    request = {"metadata": {"portal_job_kernel": {"kernel": "python3", "environment": "x"}}}
    (folder / "kernels/job-x/kernel.json").write_text(json.dumps(request))
    environ = {"PORTAL_KERNEL_SPECS": str(folder)}
    assert kernel_for(_with_kernel(tmp_path, "job-x"), environ) == "python3"
    assert kernel_for(_with_kernel(tmp_path, "ir"), environ) == "ir"
    assert kernel_for(_with_kernel(tmp_path, ""), environ) == "python3"
    assert kernel_for(_with_kernel(tmp_path, "../x"), environ) == "../x"
    assert kernel_for(source, environ) == ""
    with pytest.raises(RunError, match="no longer offered"):
        kernel_for(_with_kernel(tmp_path, "job-y"), environ)
