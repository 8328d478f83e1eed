"""The storage benchmark: what fio says, read; and what keeps it from measuring, in words."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

STARTERS = Path(__file__).resolve().parents[3] / "deploy/environments/starters"


@pytest.fixture(scope="module")
def storage() -> Any:
    sys.path.insert(0, str(STARTERS))
    try:
        spec = importlib.util.spec_from_file_location("storage_benchmark", STARTERS / "storage.py")
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(STARTERS))
    return module


def said(error: int = 0, bw: float = 1000.0, iops: float = 2.0, before: str = "") -> str:
    job = {"error": error, "read": {"bw_bytes": bw, "iops": iops}, "write": {"bw_bytes": 0}}
    return before + json.dumps({"fio version": "fio-3.33", "jobs": [job]})


def test_fio_s_output_is_read(storage: Any) -> None:
    assert storage.parsed(said(), "read") == (1000.0, 2.0)
    assert storage.parsed(said(before="fio: this is a warning\n"), "read") == (1000.0, 2.0)


@pytest.mark.parametrize(
    ("text", "number", "words"),
    [
        (said(error=28), 28, "No space left"),
        (said(error=22), 22, "Invalid argument"),
        (said(bw=0), 0, "moved no data"),
        ("{}", 0, "cannot be read"),
        ('{"jobs": [{"error": "x"}]}', 0, "cannot be read"),
        ("no JSON", 0, "cannot be read"),
    ],
)
def test_a_failure_of_fio_is_told(storage: Any, text: str, number: int, words: str) -> None:
    with pytest.raises(storage.Failed, match=words) as failed:
        storage.parsed(text, "read")
    assert failed.value.number == number


class Fio:
    """A fio that says these speeds in turn, or that it does not know O_DIRECT."""

    def __init__(self, *speeds: float, direct: bool = True, error: int = 0) -> None:
        self.speeds, self.direct, self.error = list(speeds), direct, error
        self.commands: list[list[str]] = []

    def __call__(self, command: list[str], **more: Any) -> Any:
        self.commands.append(command)
        refused = "--direct=1" in command and not self.direct
        speed = self.speeds[len(self.commands) % len(self.speeds)] if self.speeds else 5e6
        speeds = {way: {"bw_bytes": speed, "iops": 1.0} for way in ("read", "write")}
        job = {"error": 22 if refused else self.error, **speeds}
        return SimpleNamespace(stdout=json.dumps({"jobs": [job]}), stderr="")


def options(**more: Any) -> Any:
    return SimpleNamespace(**{"size": 2**20, "seconds": 0.1, "repeats": 5, **more})


def measured(
    storage: Any, monkeypatch: pytest.MonkeyPatch, folder: Path, fio: Fio, **more: Any
) -> list[dict[str, Any]]:
    monkeypatch.setattr(subprocess, "run", fio)
    rows: list[dict[str, Any]] = storage.of_folder("home", folder, options(**more))
    return rows


def test_each_pattern_is_the_median_of_five(
    storage: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fio = Fio(1e6, 9e6, 3e6, 2e6, 4e6)
    rows = measured(storage, monkeypatch, tmp_path, fio)
    values = {row["value"] for row in rows if row["unit"] == "MB/s"}
    assert values == {3.0}
    names = [row["name"] for row in rows if row["unit"] == "MB/s"]
    patterns = ("sequential", "512K", "4K", "4K depth 32")
    assert names == [f"{way} {pattern}" for pattern in patterns for way in ("write", "read")]
    assert len(fio.commands) == 8 * 5
    assert all("direct=1" in row["conditions"] for row in rows)
    deep = next(each for each in fio.commands if "--iodepth=32" in each)
    assert "--bs=4k" in deep and "--rw=randwrite" in deep
    assert not list(tmp_path.iterdir()), "nothing is left"


def test_without_o_direct_the_fallback_is_recorded(
    storage: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = measured(storage, monkeypatch, tmp_path, Fio(direct=False))
    assert all("direct=0" in row["conditions"] for row in rows) and rows


def test_a_full_file_system_is_named(
    storage: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(storage.Failed) as failed:
        measured(storage, monkeypatch, tmp_path, Fio(error=28))
    assert failed.value.number == 28 and not list(tmp_path.iterdir())
    with pytest.raises(storage.Failed, match="are needed") as failed:
        measured(storage, monkeypatch, tmp_path, Fio(), size=2**60)
    assert failed.value.number == 28
