"""Files of others in the place of a point's own: event files in a shared folder, metrics, manifests
and checkpoints. They say nothing about the point, and a checkpoint would be executed."""

from __future__ import annotations

import importlib
import json
import os
import pickle
import socket
import time
from pathlib import Path
from types import ModuleType

import pytest
from neighbour import needs_root
from portal_session.kernels.environment import LIBRARY
from portal_session.runs.execution.metrics import Metrics
from portal_session.runs.execution.resumption import Resumption
from portal_session.runs.execution.task import Task, manifest_of, succeeded_before
from portal_session.runs.tracking import event_files, event_reader
from portal_session.runs.tracking.event_files import EventFiles

NEIGHBOUR = 5
ID = "5e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162"
pytestmark = needs_root


def foreign(path: Path, content: bytes = b"") -> Path:
    """Write a file of the neighbour's, which all may read and write."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o666)
    os.chown(path, NEIGHBOUR, -1)
    return path


def in_place_of(path: Path, kind: str) -> None:
    """Put a file, a link or a FIFO in the place of a point's file."""
    if kind == "file":
        foreign(path, path.read_bytes())
    elif kind == "link":
        content = path.read_bytes()
        path.unlink()
        path.symlink_to(foreign(path.with_name("theirs"), content))
    else:
        path.unlink()
        os.mkfifo(path)
        os.chown(path, NEIGHBOUR, -1)


def test_an_event_file_with_the_right_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_files, "children", lambda: {"77"})
    started = time.time() - 10
    files = EventFiles(tmp_path / "0000/logs", tmp_path, started, "PORTAL_METRICS=/here")
    name = f"events.out.tfevents.{int(started) + 5}.{socket.gethostname()}.77.0"
    for folder in (tmp_path, tmp_path / "runs/a", tmp_path / "0000/logs"):
        foreign(folder / name)
        (folder / name.replace("77.0", "77.1")).symlink_to(foreign(tmp_path / "theirs"))
        os.mkfifo(folder / name.replace("77.0", "77.2"))
    assert files.new_files() == []
    (tmp_path / "runs/a" / name.replace("77.0", "77.3")).touch()
    assert [path.name[-4:] for path in files.new_files()] == ["77.3"]


@pytest.mark.parametrize("kind", ["file", "link", "FIFO"])
def test_one_that_is_put_there_after_it_was_found(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "events"
    path.write_bytes(b"own")
    assert Path(event_reader.opened(str(path))).read_bytes() == b"own"
    in_place_of(path, kind)
    with pytest.raises(OSError):
        event_reader.opened(str(path))


@pytest.mark.parametrize("kind", ["file", "link", "FIFO"])
def test_metrics(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"loss": 0.1}\n')
    assert Metrics(path).newest() == {"loss": 0.1}
    in_place_of(path, kind)
    assert Metrics(path).newest() == {}


@pytest.mark.parametrize("kind", ["file", "link", "FIFO"])
def test_the_manifest_of_an_earlier_attempt(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "0000/manifest.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"run": {"id": ID}, "state": "succeeded"}))
    task = Task(ID, "train", tmp_path, 0, 2, "123_0")
    assert succeeded_before(task) == path.parent
    in_place_of(path, kind)
    assert succeeded_before(task) is None and manifest_of(path.parent, own=True) == {}


@pytest.mark.parametrize("kind", ["file", "link", "FIFO"])
def test_how_often_a_point_was_resumed(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "0000.checkpoint/resumed"
    path.parent.mkdir()
    path.write_text("3")
    task = Task(ID, "train", tmp_path, 0, 1, "123_0", resumes=9)
    assert Resumption(task, tmp_path).words == "Resumed 3 times."
    in_place_of(path, kind)
    assert Resumption(task, tmp_path).words == ""


@pytest.fixture
def portal_checkpoint(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(LIBRARY))
    return importlib.import_module("portal_checkpoint")


class Evil:
    """What leaves a trace when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return os.mkdir, (str(self.trace),)


@pytest.mark.parametrize("kind", ["file", "link", "FIFO", "writable"])
def test_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, portal_checkpoint: ModuleType, kind: str
) -> None:
    place, trace = tmp_path / "0000.checkpoint", tmp_path / "trace"
    place.mkdir()
    (place / "checkpoint").write_bytes(pickle.dumps(Evil(trace)))
    if kind == "writable":
        (place / "checkpoint").chmod(0o666)
    else:
        in_place_of(place / "checkpoint", kind)
    monkeypatch.setenv("PORTAL_CHECKPOINT", str(place))
    monkeypatch.setenv("PORTAL_ATTEMPT", str(tmp_path))
    monkeypatch.setattr(portal_checkpoint, "_begun", [])
    with pytest.raises(RuntimeError, match=r"checkpoint (is not a file that only|cannot be read)"):
        list(portal_checkpoint.resumed(range(3), state={}))
    assert not trace.exists()


def test_one_s_own_checkpoint_is_nobody_else_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, portal_checkpoint: ModuleType
) -> None:
    place, before = tmp_path / "0000.checkpoint", os.umask(0)
    try:
        monkeypatch.setenv("PORTAL_CHECKPOINT", str(place))
        monkeypatch.setenv("PORTAL_ATTEMPT", str(tmp_path))
        monkeypatch.setattr(portal_checkpoint, "_LOOKS", 0)
        for _ in range(2):
            monkeypatch.setattr(portal_checkpoint, "_begun", [])
            list(portal_checkpoint.resumed(range(3), minutes=0, state={}))
    finally:
        os.umask(before)
    for path in place.iterdir():
        assert path.stat().st_mode & 0o077 == 0
