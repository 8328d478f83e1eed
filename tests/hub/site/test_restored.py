"""A Hub whose database is an older copy: a session that it does not know is shown, and not started
twice."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hub_client import Person, wait_until
from jobs import living_jobs, nothing_left, only_job
from other_hub import other_hub

from portal.paths import data_path

WHO = "student17"
LAUNCH = {"environment": "python-venv"}


def recorded(place: Path) -> list[tuple[str, str]]:
    """The living sessions in the portal's database of this Hub, by server and job."""
    with contextlib.closing(sqlite3.connect(place / "portal.sqlite")) as database:
        with contextlib.suppress(sqlite3.OperationalError):  # not there yet
            query = "SELECT server, job_id FROM sessions WHERE state != 'ended'"
            return list(database.execute(query))
    return []


@pytest.fixture
def backups() -> Iterator[Path]:
    """A folder for a backup and its passphrase, which the demo sees too."""
    with tempfile.TemporaryDirectory(prefix="pt-", dir="/var/tmp") as folder:
        key = Path(folder) / "passphrase"
        key.write_text("correct horse battery staple")
        key.chmod(0o600)
        yield Path(folder)


def portal(demo: Any, backups: Path, command: str, *words: str) -> str:
    """Run ``portal backup`` or ``portal restore`` on the backup, where the demo's Slurm is."""
    env = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(data_path("deploy").parent),
        "PORTAL_DEMO_STATE": str(demo.home.run / "state.json"),
    }
    argv = [sys.executable, "-m", "portal", command, f"--passphrase-file={backups}/passphrase"]
    return str(demo.run([*argv, *words, str(backups / "one.tar")], env=env).stdout)


def test_a_session_that_is_newer_than_the_backup(demo: Any, backups: Path) -> None:
    """The restore names its job; the Hub shows that, and does not start it twice."""
    nothing_left(demo, WHO)
    with other_hub(demo) as (url, place):
        person = Person(url, WHO)
        assert person.api("GET", "/user").status_code == 200
        portal(demo, backups, "backup", f"--config={place.parent}/config.py")
        assert person.launch(LAUNCH).status_code in (201, 202)
        person.wait_ready()
    job_id = only_job(demo, WHO)
    assert not place.exists()
    told = portal(demo, backups, "restore")
    assert f"  Job {job_id} of {WHO}, session '': the Hub shows it on the Sessions page." in told

    def restored(new_place: Path) -> None:
        for name in ("hub.sqlite", "cookie-secret"):
            shutil.copy2(place / name, new_place / name)
            owner = new_place.stat()
            shutil.chown(new_place / name, owner.st_uid, owner.st_gid)

    try:
        with other_hub(demo, prepare=restored) as (url, new_place):
            person = Person(url, WHO)
            wait_until("it is recorded", lambda: recorded(new_place) == [("", job_id)], 60)
            refused = person.launch(LAUNCH)
            assert refused.status_code == 409, refused.text
            assert f"Job {job_id} of this session runs on" in refused.json()["message"]
            assert only_job(demo, WHO) == job_id
            demo.run(["scancel", job_id], user=demo.user(WHO))
            wait_until("it has ended", lambda: not living_jobs(demo, WHO))
            assert person.launch(LAUNCH).status_code in (201, 202)
            person.wait_ready()
            person.stop()
    finally:
        shutil.rmtree(place.parent)
        for job in living_jobs(demo, WHO):
            demo.run(["scancel", job.id], user=demo.user(WHO), check=False)
