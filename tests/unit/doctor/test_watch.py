"""What `portal doctor --watch` tells: only what changes, one line each."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from portal.doctor.app import DoctorApp
from portal.doctor.finding import Finding, Level
from portal.doctor.watch import Changes, lines

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)


def finding(id_: str, level: Level, found: str, mend: str = "") -> Finding:
    return Finding(id=id_, title=id_, level=level, found=found, mend=mend)


def told(changes: Changes, *findings: Finding) -> list[str]:
    return list(lines(changes.since_last(findings), NOON, as_json=False))


def test_only_changes_are_told() -> None:
    changes, well = Changes(), finding("slurm", Level.OK, "Slurm 25.05")
    low = finding("disk", Level.WARNING, "12 MiB are left", "Make space.")
    assert told(changes, well, low) == [
        "2026-11-29T12:00:00Z warning disk: 12 MiB are left → Make space."
    ]
    lower = finding("disk", Level.WARNING, "11 MiB are left", "Make space.")
    assert told(changes, well, lower) == []  # another number
    away = finding("slurm", Level.FAILURE, "no answer\nat all")
    assert told(changes, away, lower) == ["2026-11-29T12:00:00Z failure slurm: no answer at all"]
    other = finding("slurm", Level.FAILURE, "wrong key")
    assert told(changes, other, lower) == ["2026-11-29T12:00:00Z failure slurm: wrong key"]
    assert told(changes, well, finding("disk", Level.OK, "5 GiB are left")) == [
        "2026-11-29T12:00:00Z ok      slurm: Slurm 25.05",
        "2026-11-29T12:00:00Z ok      disk: 5 GiB are left",
    ]


def test_a_line_of_json_has_the_level_before() -> None:
    changes = Changes()
    list(changes.since_last([finding("slurm", Level.OK, "")]))
    new = changes.since_last([finding("slurm", Level.FAILURE, "gone", "Look.")])
    (line,) = lines(new, NOON, as_json=True)
    assert json.loads(line) == {
        "time": "2026-11-29T12:00:00Z",
        "id": "slurm",
        "title": "slurm",
        "level": "failure",
        "found": "gone",
        "mend": "Look.",
        "was": "ok",
    }


def test_the_command_looks_again_until_it_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rests: list[float] = []

    def sleep(seconds: float) -> None:
        rests.append(seconds)
        if len(rests) == 2:
            raise KeyboardInterrupt
        (tmp_path / "site.py").write_text("raise ValueError")

    (tmp_path / "site.py").write_text("")
    monkeypatch.setattr("portal.doctor.app.time.sleep", sleep)
    app = DoctorApp()
    app.initialize([f"--config={tmp_path}/site.py", "--only=hub-config", "--watch=10"])
    with pytest.raises(SystemExit) as ended:
        app.start()
    assert ended.value.code == 0 and rests == [600.0, 600.0]
    out = capsys.readouterr().out.splitlines()
    assert len(out) == 1 or "failure hub-config" in out[-1], out
    assert "failure hub-config" in out[-1] and "site.py" in out[-1]
