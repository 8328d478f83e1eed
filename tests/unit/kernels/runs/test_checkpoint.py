"""The loop of portal_checkpoint without a job: what it saves, what it restores, what it refuses."""

from __future__ import annotations

import contextlib
import importlib
import pickle
import random
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from portal_session.kernels.environment import LIBRARY
from portal_session.runs.execution import outcome, resumption

from portal.work.run import endings


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
    assert caught.value.code == outcome.RESUMES and "was saved" in str(caught.value)
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


class Torch(ModuleType):
    """PyTorch of a program on a node with so many GPUs: its random numbers and its files. As the
    real one, it initializes CUDA when a GPU is used first, and sets the seeds last then."""

    def __init__(self, gpus: int) -> None:
        super().__init__("torch")
        self._cpu, self._gpus = random.Random(), [random.Random() for _ in range(gpus)]
        self._states: list[tuple[int, Any]] = []
        self._seed = 0
        self._on = False
        self.get_rng_state, self.set_rng_state = self._cpu.getstate, self._cpu.setstate
        self.cuda = SimpleNamespace(
            is_initialized=lambda: self._on,
            device_count=lambda: gpus,
            init=self.init,
            get_rng_state_all=lambda: [gpu.getstate() for gpu in self._gpus],
            set_rng_state=self.set_on_gpu,
        )

    def init(self) -> None:
        if self._on:
            return
        assert self._gpus, "No CUDA GPUs are available"
        self._on = True
        for gpu, state in self._states:
            self._gpus[gpu].setstate(state)
        for gpu, generator in enumerate(self._gpus):
            generator.seed(self._seed + gpu)

    def set_on_gpu(self, state: Any, gpu: int) -> None:
        self._states.append((gpu, state))
        if self._on:
            self._gpus[gpu].setstate(state)

    def manual_seed(self, seed: int) -> None:
        self._cpu.seed(seed)
        self._seed = seed

    def rand(self) -> list[float]:
        """Return a random number of the CPU, then one of each GPU."""
        if self._gpus:
            self.init()
        return [generator.random() for generator in (self._cpu, *self._gpus)]

    def save(self, value: Any, file: Any) -> None:
        file.write(b"PK")
        pickle.dump(value, file)

    def load(self, file: Any, map_location: str, weights_only: bool) -> Any:
        assert map_location == "cpu" and not weights_only
        file.seek(2)
        return pickle.load(file)


def drawn(library: ModuleType, attempt: Path, torch: Torch, steps: int, last: int) -> list[Any]:
    """Execute a program with this PyTorch, whose time is over at the step ``last``; return the
    random numbers of its steps."""
    torch.manual_seed(7)
    found = []
    with contextlib.suppress(library.Saved):
        for _ in library.resumed(range(steps)):
            found.append(torch.rand())
            if len(found) == last:
                (attempt / "save-now").touch()
    again(library, attempt)
    return found


@pytest.mark.parametrize(
    ("gpus", "words"),
    [
        (2, ""),
        (1, "from a job with 2 GPUs, but this one has 1 GPU."),
        (3, "from a job with 2 GPUs, but this one has 3 GPUs."),
        (0, "from a job with 2 GPUs, but this one has 0 GPUs."),
    ],
)
def test_random_numbers_of_gpus_go_on(
    library: ModuleType,
    attempt: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    gpus: int,
    words: str,
) -> None:
    """Also on another number of GPUs, as far as they are there."""
    whole = Torch(2)
    whole.manual_seed(7)
    expected = [whole.rand() for _ in range(5)]
    monkeypatch.setitem(sys.modules, "torch", first := Torch(2))
    assert drawn(library, attempt, first, 5, 2) == expected[:2]
    monkeypatch.setitem(sys.modules, "torch", second := Torch(gpus))
    rest = drawn(library, attempt, second, 5, 9)
    same = 1 + min(gpus, 2)
    assert [numbers[:same] for numbers in rest] == [numbers[:same] for numbers in expected[2:]]
    said = capsys.readouterr().err
    assert words in said and bool(said) is bool(words)


def test_without_a_gpu_in_use_nothing_is_said_of_gpus(
    library: ModuleType,
    attempt: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole = Torch(0)
    whole.manual_seed(7)
    expected = [whole.rand() for _ in range(4)]
    monkeypatch.setitem(sys.modules, "torch", first := Torch(0))
    found = drawn(library, attempt, first, 4, 2)
    monkeypatch.setitem(sys.modules, "torch", second := Torch(1))
    found += [numbers[:1] for numbers in drawn(library, attempt, second, 4, 9)]
    assert found == expected and capsys.readouterr().err == ""


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
    with pytest.raises(RuntimeError, match="has array, state, but the loop names state"):
        list(library.resumed(range(3), state={}))
    again(library, attempt)
    with pytest.raises(RuntimeError, match="'array' does not fit the checkpoint: ValueError"):
        list(library.resumed(range(3), state={}, array=np.zeros(3)))
    again(library, attempt)
    path = attempt.parent / "0000.checkpoint/checkpoint"
    path.write_bytes(b"")
    with pytest.raises(RuntimeError, match=r"cannot be read: EOFError.* Delete it to start over"):
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
    assert "The checkpoint was not saved; the loop continues" in capsys.readouterr().err
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
