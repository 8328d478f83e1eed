"""The log of a session's job on a full disk."""

from __future__ import annotations

import getpass
from pathlib import Path

import pytest

from portal import disk
from spawners.launch.job_log import make_log


async def test_no_log_is_begun_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs, hub = tmp_path / "logs", tmp_path / "hub"
    logs.mkdir()
    hub.mkdir()
    monkeypatch.chdir(hub)
    for full in (logs, hub):  # the log's own disk, and the one of the Hub's database
        monkeypatch.setattr(disk, "free", lambda path, full=full: 0 if Path(path) == full else None)
        with pytest.raises(disk.DiskFull):
            await make_log(str(logs), getpass.getuser())
        assert not list(logs.iterdir())
    monkeypatch.setattr(disk, "free", lambda path: disk.LEAST)
    assert (logs / await make_log(str(logs), getpass.getuser())).exists()
