"""A session of a minute, Slurm's shortest time limit, which expires while other tests run."""

from __future__ import annotations

from typing import Any

from hub_client import Person, wait_until
from jobs import living_jobs


def brief_session(demo: Any, student: Person) -> str:
    """Launch the session, wait until it is ready and return its job id. Retry if Slurm ended it
    before, as on a machine that stood still."""
    student.stop()
    # In the partition gpu: another test takes a node of the partition cpu away.
    options = {"environment": "python-venv", "time": "0:01:00", "partition": "gpu"}
    for _ in range(3):
        response = student.launch(options)
        assert response.status_code in (201, 202), response.text
        wait_until(
            "it is ready, or over", lambda: student.server().get("ready") or not student.server()
        )
        jobs = living_jobs(demo, student.name)
        if student.server().get("ready") and jobs:
            return jobs[0].id
        student.stop()
    raise AssertionError("no session of a minute became ready")
