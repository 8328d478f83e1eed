"""What a person lacks is told before anything is submitted, with whom to ask."""

from __future__ import annotations

from typing import Any

import pytest
from hub_client import Person, wait_until
from jobs import living_jobs


@pytest.fixture
def student(demo: Any) -> Person:
    return Person(demo.url, "student05")


def refused(student: Person) -> str:
    """The words of a refused launch."""
    answer = student.launch({"environment": "python-venv"})
    assert answer.status_code == 403, answer.text
    return str(answer.json()["message"])


def test_without_a_slurm_association(demo: Any, student: Person) -> None:
    demo.run(["sacctmgr", "-i", "delete", "user", "name=student05"])
    try:
        # Associations are kept for a minute.
        page = wait_until(
            "the page knows it",
            lambda: "no Slurm account" in (p := student.page("/hub/spawn")) and p,
            timeout=90,
            every=2,
        )
        assert "Please ask an administrator" in page
        assert "no Slurm account" in refused(student)
        assert living_jobs(demo, "student05") == []
    finally:
        demo.run(["sacctmgr", "-i", "add", "user", "student05", "account=dl101"])


def test_without_a_home(demo: Any) -> None:
    student = Person(demo.url, "student06")  # not the one whose association was away
    home = demo.home.demo / "home" / "student06"
    away = home.with_name("student06-away")
    home.rename(away)
    try:
        assert "does not exist" in student.page("/hub/spawn")
        words = refused(student)
        assert str(home) in words
        assert "ask" in words
    finally:
        away.rename(home)


def test_free_space_is_on_the_page(demo: Any, student: Person) -> None:
    page = student.page("/hub/spawn")
    assert "Home" in page
    assert " free of " in page
