"""A Hub whose database is an older copy: a session that it does not know is shown, and not started
twice."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from pathlib import Path
from typing import Any

from hub_client import Person, wait_until
from jobs import living_jobs, nothing_left, only_job
from other_hub import other_hub

WHO = "student17"
LAUNCH = {"environment": "python-venv"}


def recorded(place: Path) -> list[tuple[str, str]]:
    """The living sessions in the portal's database of this Hub, by server and job."""
    with contextlib.closing(sqlite3.connect(place / "portal.sqlite")) as database:
        with contextlib.suppress(sqlite3.OperationalError):  # not there yet
            query = "SELECT server, job_id FROM sessions WHERE state != 'ended'"
            return list(database.execute(query))
    return []


def test_a_session_that_is_newer_than_the_database(demo: Any, tmp_path: Path) -> None:
    nothing_left(demo, WHO)
    with other_hub(demo) as (url, place):
        person = Person(url, WHO)
        assert person.api("GET", "/user").status_code == 200
        shutil.copy2(place / "cookie-secret", tmp_path)
        with (
            contextlib.closing(sqlite3.connect(place / "hub.sqlite")) as database,
            contextlib.closing(sqlite3.connect(tmp_path / "hub.sqlite")) as copy,
        ):
            database.backup(copy)
        assert person.launch(LAUNCH).status_code in (201, 202)
        person.wait_ready()
    job_id = only_job(demo, WHO)

    def restored(place: Path) -> None:
        for path in tmp_path.iterdir():
            shutil.copy2(path, place / path.name)
            owner = place.stat()
            shutil.chown(place / path.name, owner.st_uid, owner.st_gid)

    try:
        with other_hub(demo, prepare=restored) as (url, place):
            person = Person(url, WHO)
            wait_until("it is recorded", lambda: recorded(place) == [("", job_id)], 60)
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
        for job in living_jobs(demo, WHO):
            demo.run(["scancel", job.id], user=demo.user(WHO), check=False)
