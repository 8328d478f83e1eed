"""A site's preparation_hook makes what a person lacks, before the page says that it is missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hub_client import Person, wait_until
from other_hub import other_hub

# The Hub's account is an Operator, which may add users to accounts.
SETTINGS = """
import subprocess


def prepare(spawner):
    name = spawner.user.name
    with open(place + "/called", "a") as file:
        print(name, file=file)
    if name == "student08":
        raise RuntimeError("secret words of student08")
    command = ["sacctmgr", "-i", "add", "user", name, "account=dl101"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


c.PortalSpawner.preparation_hook = prepare
"""


@pytest.fixture
def hub(demo: Any) -> Iterator[tuple[str, Path]]:
    """A second Hub with the hook; student07 and student08 have no association."""
    for name in ("student07", "student08"):
        demo.run(["sacctmgr", "-i", "delete", "user", f"name={name}"])
    try:
        with other_hub(demo, SETTINGS) as found:
            yield found
    finally:
        for name in ("student07", "student08"):
            demo.run(["sacctmgr", "-i", "add", "user", name, "account=dl101"], check=False)


def test_what_is_missing_is_made_on_the_launch_page(demo: Any, hub: tuple[str, Path]) -> None:
    url, place = hub
    student = Person(url, "student07")
    page = wait_until("the launch page", lambda: student.page("/hub/spawn"))
    assert "no Slurm account" not in page
    assert "python" in page.lower()
    # The launch sees at once what the hook has made, and the hook is not called again.
    answer = student.launch({"environment": "python-venv"})
    assert answer.status_code in (201, 202), answer.text
    student.stop()
    assert (place / "called").read_text().split() == ["student07"]

    other = Person(url, "student08")
    answer = other.launch({"environment": "python-venv"})
    assert answer.status_code == 403
    message = answer.json()["message"]
    assert "could not be prepared" in message
    assert "ask an administrator" in message
    assert "no Slurm account" in message
    assert "secret words" not in answer.text
    assert "could not be prepared" in other.page("/hub/spawn")
    log = (place.parent / "log").read_text()
    assert "RuntimeError: secret words of student08" in log
