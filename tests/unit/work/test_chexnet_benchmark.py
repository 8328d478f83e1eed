"""The comparison of a container with a virtual environment: the order of its turns, its ratios, and
what keeps it from measuring, in words. PyTorch is played; the script runs with it in
tests/integration/catalog/test_benchmark_scripts.py."""

from __future__ import annotations

import importlib.util
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

STARTERS = Path(__file__).resolve().parents[3] / "deploy/environments/starters"
COMMANDS = (["a"], ["b"])


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The script without GPUs; `script.gpus` GPUs if that is changed."""
    names = ("torch", "torch.distributed", "torch.nn", "torch.nn.parallel")
    made = {name: ModuleType(name) for name in names}
    for name, part in made.items():
        monkeypatch.setitem(sys.modules, name, part)
        parent, _, child = name.rpartition(".")
        if parent:
            monkeypatch.setattr(made[parent], child, part, raising=False)
    parallel: Any = made["torch.nn.parallel"]
    parallel.DistributedDataParallel = None
    monkeypatch.syspath_prepend(str(STARTERS))
    place = STARTERS / "chexnet-scaling.py"
    spec = importlib.util.spec_from_file_location("chexnet_scaling", place)
    assert spec and spec.loader
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.gpus = 0
    torch: Any = made["torch"]
    torch.cuda = SimpleNamespace(
        is_available=lambda: module.gpus > 0, device_count=lambda: module.gpus
    )
    torch.version = SimpleNamespace(hip=None)
    for name in ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    yield module
    sys.modules.pop("benchmark_results", None)


class Team:
    """Ranks of which each does 100 images a second in A, and 98 in B."""

    def __init__(self, world: int) -> None:
        self.world = world
        self.turns: list[tuple[int, str]] = []

    def turn(self, command: list[str], ranks: int, batch: int, pixels: int, steps: int) -> float:
        self.turns.append((ranks, command[0]))
        drift = 1 + 0.01 * len(self.turns)  # a node that becomes faster
        return (98.0 if command == ["b"] else 100.0) * ranks * drift


def options(**more: Any) -> Any:
    return SimpleNamespace(**{"rounds": 2, "batch": 0, "steps": 0, **more})


def test_a_and_b_take_turns_for_each_number_of_ranks(script: Any) -> None:
    team = Team(6)
    results = script.compared(team, COMMANDS, options(), 0)
    assert team.turns == [(n, side) for n in (1, 2, 4, 6) for side in "abab"]
    values = {(row["name"], row["conditions"].split(",")[0]): row for row in results}
    assert len(values) == len(results) == 4 * 3 + 3 * 2
    ratio = values["container to virtual environment", "ranks=1"]
    # 98 % of A in each pair, whatever the drift, but for the turn between the two.
    assert ratio["value"] == pytest.approx(0.98 * (1.02 / 1.01 + 1.04 / 1.03) / 2)
    assert ratio["unit"] == "\N{MULTIPLICATION SIGN}" and "rounds=2" in ratio["conditions"]
    assert values["training in a virtual environment", "ranks=1"]["value"] == pytest.approx(102)
    scaling = values["scaling in a container", "ranks=4"]["value"]
    assert scaling == pytest.approx(98 * (1.10 + 1.12) / 2 / (98 * (1.02 + 1.04) / 2))
    assert {(row["gpus"], row["peak"]) for row in results} == {(0, "")}
    assert len({row["conditions"] for row in results if "torch" in row["conditions"]}) == 0


def test_gpus_are_compared_with_their_peak(script: Any) -> None:
    script.gpus = 2
    results = script.compared(Team(2), COMMANDS, options(rounds=1), 2)
    training = [row for row in results if row["unit"] == "images/s"]
    assert [row["gpus"] for row in training] == [1, 1, 2, 2]
    assert {row["peak"] for row in training} == {"fp16"}
    assert all("pixels=224" in row["conditions"] for row in results)
    assert {row["peak"] for row in results if row["unit"] != "images/s"} == {""}


def test_apptainer_is_started_for_the_gpus(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = tmp_path / "a,b.sif"
    image.write_text("")
    monkeypatch.setattr(script.shutil, "which", lambda name: f"/bin/{name}")
    plain = script.container(str(image), "/t")
    assert plain == [
        *("/bin/apptainer", "exec", "--cleanenv", "--bind=/t", str(image), "python3"),
    ]
    script.gpus = 1
    assert "--nv" in script.container(str(image), "/t")
    script.torch.version.hip = "6.0"
    assert "--rocm" in script.container(str(image), "/t")


@pytest.mark.parametrize(
    ("image", "environ", "there", "words"),
    [
        ("", {}, True, "--image is missing. Name an image"),
        ("/nonexistent.sif", {}, True, "/nonexistent.sif is not on this node"),
        (str(STARTERS), {}, False, "This node has no Apptainer"),
        (str(STARTERS), {"APPTAINER_CONTAINER": "/x.sif"}, True, "cannot start another one"),
    ],
)
def test_what_keeps_a_container_from_starting_is_said(
    script: Any,
    monkeypatch: pytest.MonkeyPatch,
    image: str,
    environ: dict[str, str],
    there: bool,
    words: str,
) -> None:
    monkeypatch.setattr(script.shutil, "which", lambda name: "/bin/x" if there else None)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(script.Failure, match=words):
        script.container(image, "/t")


def test_versions_of_pytorch_must_be_the_same(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: dict[str, Any] = {"a": (0, "hello\n2.5.1\n", ""), "b": (0, "2.5.1\n", "")}

    def run(command: list[str], **more: Any) -> Any:
        code, out, err = answers[command[0]]
        return SimpleNamespace(returncode=code, stdout=out, stderr=err)

    monkeypatch.setattr(script.subprocess, "run", run)
    assert script.same_version(COMMANDS) == "2.5.1"
    answers["b"] = (0, "2.9.0a0+nv25.10\n", "")
    with pytest.raises(script.Failure, match=r"has PyTorch 2\.5\.1, the container 2\.9\.0a0"):
        script.same_version(COMMANDS)
    answers["b"] = (1, "", "Traceback\nNo module named 'torch'\n")
    with pytest.raises(script.Failure, match=r"The container has no PyTorch .*: No module named"):
        script.same_version(COMMANDS)


def test_variables_of_the_gpus_go_into_the_container(
    script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setenv("PYTHONPATH", "/own")
    environ = script.environment()
    assert environ["APPTAINERENV_CUDA_VISIBLE_DEVICES"] == "0,1"
    assert environ["APPTAINERENV_PYTHONNOUSERSITE"] == "1"
    assert "APPTAINERENV_PYTHONPATH" not in environ


class Process:
    """Rank that has ended with this code, or only ends if it is told to."""

    def __init__(self, code: int | None) -> None:
        self.code, self.ended = code, False
        self.stdout = io.BytesIO(b"warning\n12.5\n")
        self.stdin = io.BytesIO()

    def poll(self) -> int | None:
        return self.code

    def terminate(self) -> None:
        self.ended = True
        self.code = -15 if self.code is None else self.code

    def wait(self) -> int | None:
        return self.code


def test_a_rank_that_fails_ends_the_others(script: Any) -> None:
    well = [Process(0), Process(0)]
    assert script.ended_well(well) and not well[0].ended
    ranks = [Process(None), Process(1), Process(0)]
    assert not script.ended_well(ranks)
    assert ranks[0].ended


def test_ranks_are_told_where_they_meet(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[list[str], Process]] = []

    def start(command: list[str], **more: Any) -> Process:
        started.append((command, Process(0)))
        return started[-1][1]

    monkeypatch.setattr(script.subprocess, "Popen", start)
    monkeypatch.setattr(script.os, "sched_getaffinity", lambda process: set(range(8)))
    team = script.Team(str(tmp_path), 2)
    assert team.turn(["b"], 2, 4, 64, 1) == 12.5
    asked = [command[-1].removeprefix("--measure=") for command, _ in started]
    assert asked == [
        f'[{rank}, 2, "file://{tmp_path}/1", {rank}, 4, 4, 64, 1]' for rank in range(2)
    ]
    assert all(command[:2] == ["b", "-"] for command, _ in started)
    assert team.meeting() == f"file://{tmp_path}/2", "no turn meets where another did"
    monkeypatch.setattr(script.subprocess, "Popen", lambda *_, **__: Process(1))
    with pytest.raises(script.Failure, match="A rank of 2 has failed"):
        team.turn(["b"], 2, 4, 64, 1)


def test_the_executed_copy_is_what_the_ranks_execute(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PORTAL_FROZEN_SOURCE", raising=False)
    assert script.source() == (STARTERS / "chexnet-scaling.py").read_bytes()
    frozen = tmp_path / "source.py"
    frozen.write_text("frozen")
    monkeypatch.setenv("PORTAL_FROZEN_SOURCE", str(frozen))
    assert script.source() == b"frozen"
