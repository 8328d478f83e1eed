"""What a QOS does not allow is told at the launch, instead of a job that waits for ever."""

from __future__ import annotations

from typing import Any

from hub_client import Person
from jobs import living_jobs


def test_a_time_over_the_qos_limit(demo: Any) -> None:
    limit = demo.run(["sacctmgr", "-nP", "show", "qos", "short", "format=MaxWall"]).stdout
    assert limit.strip() == "01:00:00"
    student = Person(demo.url, "student29")
    options = {"environment": "python-venv", "qos": "short"}
    answer = student.launch({**options, "time": "2:00:00"})
    assert answer.status_code == 403, answer.text
    assert answer.json()["message"] == "The QOS 'short' allows a time limit of at most 1 h."
    assert living_jobs(demo, "student29") == []
    answer = student.launch({**options, "time": "1:00:00"})
    assert answer.status_code in (201, 202), answer.text
    student.stop()
