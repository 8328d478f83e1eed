"""The loop of portal_checkpoint without a job: what it saves, what it restores, what it refuses."""

from __future__ import annotations

import importlib
import random
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from portal_session.kernels.environment import LIBRARY
from portal_session.runs.execution import outcome, resumption

from portal.sessions.runs import endings


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """portal_checkpoint, as a program finds it."""
    monkeypatch.syspath_prepend(str(LIBRARY))
    for name in ("portal_checkpoint", "portal_states"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    module = importlib.import_module("portal_checkpoint")
    monkeypatch.setattr(module, "_LOOKS", 0)
    monkeypatch.setattr(module, "_AGAIN", 0)
    return module


@pytest.fixture
def attempt(library: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of an attempt; `again` begins the next one."""
    folder = tmp_path / "0000"
    folder.mkdir()
    monkeypatch.setenv("PORTAL_CHECKPOINT", str(tmp_path / "0000.checkpoint"))
    monkeypatch.setenv("PORTAL_ATTEMPT", str(folder))
    return folder


def again(library: ModuleType, attempt: Path) -> None:
    library._begun.clear()
    (attempt / "save-now").unlink(missing_ok=True)


def until(library: ModuleType, attempt: Path, last: int, steps: Any, **objects: Any) -> list[Any]:
    """Execute the loop, whose time is over at the step ``last``; return its steps."""
    seen = []
    with pytest.raises(SystemExit) as caught:
        for step in library.resumed(steps, **objects):
            seen.append(step)
            for value in objects.values():
                change(value)
            if len(seen) == last:
                (attempt / "save-now").touch()
    assert caught.value.code == outcome.RESUMES and "is saved" in str(caught.value)
    again(library, attempt)
    return seen


def change(value: Any) -> None:
    """Change an object by a step that depends on those before."""
    if isinstance(value, dict):
        value["n"] = value.get("n", 1) * 2
    elif isinstance(value, list):
        value.append(len(value))
    elif isinstance(value, set):
        value.add(len(value))
    elif isinstance(value, np.ndarray):
        value += 1.5
    elif isinstance(value, (np.random.Generator, random.Random)):
        value.random()
    elif isinstance(value, np.random.RandomState):
        value.rand()
    else:
        value.n += 1


def make() -> dict[str, Any]:
    return {
        "state": {},
        "seen": [],
        "found": set(),
        "array": np.zeros((2, 3)),
        "modern": np.random.default_rng(5),
        "old": np.random.RandomState(5),
        "plain": random.Random(5),
        "thing": SimpleNamespace(n=0),
    }


def content(objects: dict[str, Any]) -> list[Any]:
    numbers = [objects[name].random() for name in ("modern", "plain")]
    numbers.append(objects["old"].rand())
    rest = [objects[name] for name in ("state", "seen", "found")]
    return [*numbers, *rest, objects["array"].tolist(), objects["thing"].n]


def test_objects_are_what_they_would_have_been(library: ModuleType, attempt: Path) -> None:
    whole, first, second = make(), make(), make()
    for _ in range(7):
        for value in whole.values():
            change(value)
    assert until(library, attempt, 3, range(7), **first) == [0, 1, 2]
    kept = dict(second)
    rest = []
    for step in library.resumed(range(7), **second):
        rest.append(step)
        for value in second.values():
            change(value)
    assert rest == [3, 4, 5, 6]
    assert content(second) == content(whole)
    assert all(second[name] is kept[name] for name in second), "they are the program's own"


def test_random_numbers_go_on(library: ModuleType, attempt: Path) -> None:
    random.seed(3)
    np.random.seed(3)
    expected = [(random.random(), np.random.rand()) for _ in range(4)]
    random.seed(3)
    np.random.seed(3)
    found = []
    with pytest.raises(SystemExit):
        for _ in library.resumed(iter("abcd")):
            found.append((random.random(), np.random.rand()))
            if len(found) == 2:
                (attempt / "save-now").touch()
    again(library, attempt)
    random.seed(99)
    found += [(random.random(), np.random.rand()) for _ in library.resumed(iter("abcd"))]
    assert found == expected


def test_outside_of_a_run_it_is_a_plain_loop(
    library: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("PORTAL_CHECKPOINT", raising=False)
    for _ in range(2):
        assert list(library.resumed("abc", minutes=0, state={})) == ["a", "b", "c"]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("value", [0.5, 3, "text", None, (1, 2), True])
def test_what_cannot_be_restored_is_refused(library: ModuleType, value: Any) -> None:
    with pytest.raises(TypeError, match=r"'best' is of type .* Keep it in a dict"):
        library.resumed(range(3), best=value)


def test_a_second_loop_is_refused(library: ModuleType, attempt: Path) -> None:
    assert list(library.resumed(range(2))) == [0, 1]
    with pytest.raises(RuntimeError, match="one loop of a program"):
        library.resumed(range(2))


def test_a_checkpoint_that_does_not_fit_is_named(library: ModuleType, attempt: Path) -> None:
    until(library, attempt, 1, range(3), state={}, array=np.zeros(2))
    with pytest.raises(RuntimeError, match="has array, state, and the loop names state"):
        list(library.resumed(range(3), state={}))
    again(library, attempt)
    with pytest.raises(RuntimeError, match="'array' does not fit the checkpoint: ValueError"):
        list(library.resumed(range(3), state={}, array=np.zeros(3)))
    again(library, attempt)
    path = attempt.parent / "0000.checkpoint/checkpoint"
    path.write_bytes(b"")
    with pytest.raises(RuntimeError, match=r"cannot be read: EOFError.* Delete it to begin anew"):
        list(library.resumed(range(3), state={}))


def test_what_cannot_be_saved_does_not_end_the_loop(
    library: ModuleType, attempt: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The checkpoint before is whole, and nothing half is beside it."""
    until(library, attempt, 1, range(5), state={})
    state: dict[str, Any] = {}
    for _ in library.resumed(range(5), state=state):
        state["cannot"] = lambda: None
        (attempt / "save-now").touch()
    assert "The checkpoint is not saved, the loop goes on" in capsys.readouterr().err
    again(library, attempt)
    assert list(library.resumed(range(5), state={})) == [1, 2, 3, 4]
    assert [path.name for path in (attempt.parent / "0000.checkpoint").iterdir()] == ["checkpoint"]


def test_of_several_processes_the_first_one_saves(
    library: ModuleType, attempt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    (attempt / "save-now").touch()
    assert list(library.resumed(range(3), minutes=0)) == [0, 1, 2]
    assert not (attempt.parent / "0000.checkpoint").exists()


def test_both_sides_have_the_same_words(library: ModuleType) -> None:
    assert (library.FILE, library.NOTE, library.REQUEST) == (
        resumption.FILE,
        resumption.NOTE,
        resumption.REQUEST,
    )
    assert (library._PLACE, library._ATTEMPT) == (resumption.PLACE, resumption.ATTEMPT)
    assert library._EXIT == outcome.RESUMES == endings._RESUMES
