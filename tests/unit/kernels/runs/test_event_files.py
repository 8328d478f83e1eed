"""Event files of TensorBoard: which of them are a point's, and what its reader takes of them."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest
from portal_session.runs.tracking import event_files, event_reader
from portal_session.runs.tracking.event_files import EventFiles

HOST, STARTED = socket.gethostname(), 1_700_000_000.5


def event_file(
    folder: Path, time: int = 1_700_000_000, host: str = HOST, process: int = 77
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"events.out.tfevents.{time}.{host}.{process}.0.v2"
    path.touch()
    return path


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EventFiles:
    monkeypatch.setattr(event_files, "children", lambda: {"77"})
    return EventFiles(tmp_path / "0000/logs", tmp_path, STARTED, "PORTAL_METRICS=/here")


@pytest.mark.parametrize(
    "folder", ["", "runs/Jan01_gpu01", "logs/fit/a/train", "lightning_logs/version_3"]
)
def test_files_in_usual_folders(files: EventFiles, tmp_path: Path, folder: str) -> None:
    path = event_file(tmp_path / folder)
    (tmp_path / folder / "notes.txt").touch()
    assert files.new_files() == [path]
    assert files.new_files() == [], "each is found once"
    later = event_file(tmp_path / folder, 1_700_000_050)
    assert files.new_files() == [later]


@pytest.mark.parametrize(
    "facts",
    [
        {"time": 1_699_999_999},
        {"host": "another"},
        {"host": f"{HOST}.77.0"},
        {"process": 78},
        {"process": 1},
    ],
)
def test_files_of_others(files: EventFiles, tmp_path: Path, facts: dict[str, int]) -> None:
    event_file(tmp_path / "logs", **facts)  # type: ignore[arg-type]
    assert files.new_files() == []


@pytest.mark.parametrize("folder", ["data", "logs/.hidden", "logs/a/b/c/d/e", "runs/train/logs"])
def test_folders_that_are_not_searched(files: EventFiles, tmp_path: Path, folder: str) -> None:
    event_file(tmp_path / folder)
    if folder.startswith("runs"):
        (tmp_path / "runs/train/run.json").touch()
    assert files.new_files() == []


def test_the_own_folder_has_files_of_any_name(files: EventFiles, tmp_path: Path) -> None:
    path = tmp_path / "0000/logs/a/events.out.tfevents.1.elsewhere"
    path.parent.mkdir(parents=True)
    path.touch()
    assert files.new_files() == [path]


def test_a_process_that_is_no_child_has_the_mark(tmp_path: Path) -> None:
    own = Path("/proc/self/environ").read_bytes().split(b"\0")[0].decode()
    marked = EventFiles(tmp_path / "l", tmp_path, STARTED, own)
    path = event_file(tmp_path / "logs", process=os.getpid())
    assert marked.new_files() == [path]
    assert EventFiles(tmp_path / "l", tmp_path, STARTED, f"{own}x").new_files() == []


def test_a_number_of_folders_is_searched_at_most(
    files: EventFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_files, "_MOST_FOLDERS", 3)
    for number in range(6):
        folder = tmp_path / f"logs/{number}"
        event_file(folder)
        os.utime(folder, (number, number))
    assert sorted(path.parent.name for path in files.new_files()) == ["4", "5"], "the newest"


def test_steps_are_thinned_to_their_last(tmp_path: Path) -> None:
    steps = {number: {"loss": float(number)} for number in range(1001)}
    steps[333]["accuracy"] = 0.5  # once in an epoch
    steps[777]["accuracy"] = 0.75
    kept = event_reader.thinned(steps)
    losses = [number for number in kept if "loss" in kept[number]]
    assert len(losses) <= 200 and 1000 in losses
    accuracies = {number: kept[number]["accuracy"] for number in kept if "accuracy" in kept[number]}
    assert accuracies == {333: 0.5, 777: 0.75}, "not lost among the others"
    assert event_reader.thinned({3: {"a": 1}, 1: {"a": 2}}) == {1: {"a": 2}, 3: {"a": 1}}
    assert event_reader.thinned({}) == {}
    target = tmp_path / "metrics.jsonl"
    event_reader.append(str(target), {7: {"loss": "nan"}})
    assert json.loads(target.read_text()) == {"loss": "nan", "step": 7}


def test_each_folder_has_names_of_its_own() -> None:
    names = event_reader.Names()
    files = {
        "/logs/validation/events": "validation/loss",  # Keras
        "/logs/version_0/events": "loss",
        "/logs/version_0/events.2": "loss",
        "/logs/version_1/events": "version_1/loss",
        "/more/validation/events": "more/validation/loss",
        "/logs/loss_train/events": "loss/train",  # add_scalars of PyTorch
        "/logs/loss_val/events": "loss/val",
        "/logs/loss_/events": "loss_/loss",
        "/more/version_1/events": "more/version_1/loss",
    }
    for _ in range(2):
        assert {path: names.named("loss", path) for path in files} == files
    assert names.named("a/b", "/logs/a_b_c/events") == "a/b/c"
    assert names.named("accuracy", "/logs/version_1/events") == "accuracy"


def test_more_files_than_are_read_are_said(
    files: EventFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(120):
        event_file(tmp_path / f"0000/logs/loss_{number}")
    assert len(files.new_files()) == 120 and files.note == ""
    monkeypatch.setattr(event_files, "_MOST_FILES", 125)
    for number in range(10):
        event_file(tmp_path / "runs/a", 1_700_000_001 + number)
    assert len(files.new_files()) == 5
    assert files.note.startswith("Metrics are missing: of TensorBoard's event files, the first 125")


def test_more_own_folders_than_are_looked_at_are_said(
    files: EventFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_files, "_MOST_OWN_FOLDERS", 5)
    monkeypatch.setattr(event_files, "_MOST_FOLDERS", 5)
    for number in range(9):  # of others, which are no fault
        (tmp_path / f"runs/{number}").mkdir(parents=True)
    files.new_files()
    assert files.note == ""
    for number in range(9):
        event_file(tmp_path / f"0000/logs/loss_{number}")
    assert len(files.new_files()) == 4
    assert "Metrics are missing" in files.note


def test_scalars_of_both_kinds_are_read_as_the_file_grows(tmp_path: Path) -> None:
    """PyTorch writes plain values, TensorFlow 2 tensors; histograms and texts are left out."""
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
    from tensorboard.util import tensor_util

    def scalar(tag: str, value: float) -> Summary.Value:
        made = Summary.Value(tag=tag, tensor=tensor_util.make_tensor_proto(value))
        made.metadata.plugin_data.plugin_name = "scalars"
        return made

    def text(tag: str) -> Summary.Value:
        made = Summary.Value(tag=tag, tensor=tensor_util.make_tensor_proto(["a text"]))
        made.metadata.plugin_data.plugin_name = "text"
        return made

    writer = EventFileWriter(str(tmp_path / "train"))
    (path,) = map(str, (tmp_path / "train").iterdir())
    loader, names = LegacyEventFileLoader(path), event_reader.Names()

    def steps(step: int, *values: Summary.Value) -> dict[int, dict[str, object]]:
        writer.add_event(Event(step=step, summary=Summary(value=values)))
        writer.flush()
        return event_reader.steps_of(loader, path, tensor_util.make_ndarray, names)

    plain = Summary.Value(tag="loss", simple_value=0.5)
    histogram = Summary.Value(tag="weights", histo=HistogramProto(num=3))
    assert steps(1, plain, histogram, text("note")) == {1: {"train/loss": 0.5}}
    found = steps(2, scalar("accuracy", 0.25), scalar("bad", float("nan")))
    assert found == {2: {"train/accuracy": 0.25, "train/bad": "nan"}}
    writer.close()
