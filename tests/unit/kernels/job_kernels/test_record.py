"""Records of job kernels: whole or not at all, and this account's alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from portal_session.job_kernels import record as records
from portal_session.job_kernels.record import BadRecord, Record

ID = "0123abcd-0000-4000-8000-0123456789ab"
RECORD = Record(ID, {"environment": "python", "kernel": "python3"}, "key", "cert", "private")


def test_what_is_written_is_read_and_removed(tmp_path: Path) -> None:
    records.write(RECORD.but(port=4000), tmp_path)
    records.note(ID, "work/a.ipynb", tmp_path)
    assert records.ids(tmp_path) == [ID]
    assert records.read(ID, tmp_path) == RECORD.but(port=4000, notebook="work/a.ipynb")
    records.remove(ID, tmp_path)
    assert list((tmp_path / records.FOLDER).iterdir()) == []


def test_only_this_account_can_read_it(tmp_path: Path) -> None:
    records.write(RECORD, tmp_path)
    path = records.path_of(ID, tmp_path)
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    path.parent.chmod(0o755)
    records.write(RECORD, tmp_path)
    assert path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_what_others_can_read_is_not_used(tmp_path: Path, mode: int) -> None:
    records.write(RECORD, tmp_path)
    records.path_of(ID, tmp_path).chmod(mode)
    with pytest.raises(BadRecord, match="others"):
        records.read(ID, tmp_path)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    records.write(RECORD, tmp_path)
    path = records.path_of(ID, tmp_path)
    elsewhere = tmp_path / "elsewhere.json"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    with pytest.raises(BadRecord, match="cannot be read"):
        records.read(ID, tmp_path)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "{", '{"id": "x"}', "[" * 100_000, json.dumps({"id": ID, "more": 1})]
)
def test_a_damaged_record_is_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    path = records.path_of(ID, tmp_path)
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(BadRecord, match="damaged"):
        records.read(ID, tmp_path)


@pytest.mark.parametrize("id", ["", "../x", "0123abcd/../..", "0123ABCD", "a" * 41, "-" * 8, "0\n"])
def test_what_is_no_id_names_no_file(tmp_path: Path, id: str) -> None:
    with pytest.raises(BadRecord, match="not the id"):
        records.path_of(id, tmp_path)


def test_a_full_disk_leaves_the_old_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records.write(RECORD, tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(BadRecord, match="No space left"):
        records.write(RECORD.but(port=1), tmp_path)
    assert records.read(ID, tmp_path) == RECORD
    assert [path.name for path in (tmp_path / records.FOLDER).iterdir()] == [f"{ID}.json"]
