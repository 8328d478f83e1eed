"""A machine's clock is set an hour ahead and back again, under a Hub and its service that run.

tests/wall_clock.c stands between them and the clock; the monotonic clock, Slurm's and the
sessions' go on.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from api_client import Caller
from hub_client import wait_until
from jobs import living_jobs
from other_hub import other_hub
from stepping_clock import WallClock

from portal.demo.daemons.ports import free_port
from portal.paths import data_path

SETTINGS = """
for name in ("20-service.py", "30-roles.py"):
    load_subconfig({deploy!r} + "/jupyterhub_config.d/" + name)
c.JupyterHub.services[-1]["environment"] |= {clock!r}
"""
HOUR = 3600
NOTICED = 60.0  # seconds; a frozen portal notices nothing for an hour


@pytest.fixture
def clock() -> Iterator[WallClock]:
    # The Hub and its service belong to another account, which may not read pytest's folders.
    with tempfile.TemporaryDirectory(prefix="pt-clock-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        yield WallClock(Path(folder))


class Watcher(threading.Thread):
    """Reads the service's stream of events; ``heard`` is when the last one came."""

    def __init__(self, caller: Caller) -> None:
        super().__init__(daemon=True)
        self.caller, self.heard = caller, 0.0

    def run(self) -> None:
        with contextlib.suppress(httpx.HTTPError), self.caller.events() as events:
            for _ in events:
                self.heard = time.monotonic()

    def wait_after(self, moment: float) -> None:
        """Return once an event has come later than ``moment`` (time.monotonic())."""
        wait_until("the stream goes on", lambda: self.heard > moment, NOTICED)


def comes_and_goes(demo: Any, caller: Caller) -> str:
    """A launch becomes ready; the Hub and the service notice that its job is cancelled. Returns
    the job's id."""
    student = caller.person
    answer = student.launch({"environment": "python-venv"})
    assert answer.status_code in (201, 202), answer.text
    student.wait_ready(timeout=NOTICED)
    (job,) = living_jobs(demo, student.name)
    wait_until(
        "the service knows the job",
        lambda: job.id in {one["id"] for one in caller.items("jobs")},
        NOTICED,
    )
    demo.run(["scancel", job.id], demo.user(student.name))
    wait_until("the Hub notices the end", lambda: not student.server(), NOTICED)
    wait_until(
        "the service notices the end",
        lambda: job.id not in {one["id"] for one in caller.items("jobs", state="running")},
        NOTICED,
    )
    assert caller.get("cluster").json()["age"] < NOTICED
    return job.id


def test_an_hour_ahead_and_back_again(demo: Any, clock: WallClock) -> None:
    settings = SETTINGS.format(deploy=str(data_path("deploy")), clock=clock.environment)
    variables = {**clock.environment, "PORTAL_SERVICE_PORT": str(free_port())}
    with other_hub(demo, settings, environment=variables) as (url, _):
        with Caller(url, "student12") as stays, Caller(url, "student13") as caller:
            answer = stays.person.launch({"environment": "python-venv"})
            assert answer.status_code in (201, 202), answer.text
            stays.person.wait_ready()
            (before,) = living_jobs(demo, "student12")
            with Caller(url, "student13") as listening:
                watcher = Watcher(listening)
                watcher.start()
                for ahead in (HOUR, 0):
                    clock.set(ahead)
                    said = caller.person.http.get("/hub/login").headers["Date"]
                    shown = parsedate_to_datetime(said).timestamp()
                    assert abs(shown - time.time() - ahead) < 60, "its clock is another"
                    stepped = time.monotonic()
                    comes_and_goes(demo, caller)
                    watcher.wait_after(stepped)
            # Who was there all the time is there still.
            (after,) = living_jobs(demo, "student12")
            assert after.id == before.id and stays.person.server()["ready"]
            stays.person.stop()
