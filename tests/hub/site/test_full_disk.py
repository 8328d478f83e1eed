"""The disk of a Hub's state is full, under people who are in and a session that runs."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from api_client import Caller
from hub_client import Person, wait_until
from jobs import living_jobs
from other_hub import other_hub

from portal.demo.daemons.ports import free_port
from portal.paths import data_path

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")

SETTINGS = """
import os

os.chdir(place)
for name in ("20-service.py", "30-roles.py"):
    load_subconfig({deploy!r} + "/jupyterhub_config.d/" + name)
"""
BACK = 10.0  # seconds after there is space again
RUDE = re.compile("Internal Server Error|internal error|service failed|Traceback")
LAUNCH = {"environment": "python-venv"}


def well_said(answer: Any) -> str:
    """The text of an answer, which is none of a program that failed."""
    text = str(answer.text)
    assert not RUDE.search(text), f"{answer.url}: {answer.status_code} {RUDE.search(text)}"
    assert answer.status_code < 500 or "disk is full" in text, f"{answer.url}: {text[:500]}"
    return text


def test_what_runs_goes_on_and_all_is_back_with_space(demo: Any) -> None:
    mounted: list[Path] = []

    def small(place: Path) -> None:
        # In the demo's namespace; its owner is the Hub's account, as the folder's was.
        demo.run(["mount", "-t", "tmpfs", "-o", "size=96m,uid=6100,gid=6100", "none", str(place)])
        mounted.append(place)

    settings = SETTINGS.format(deploy=str(data_path("deploy")))
    port = {"PORTAL_SERVICE_PORT": str(free_port())}
    try:
        with other_hub(demo, settings, environment=port, prepare=small) as (url, place):
            try_it(demo, url, place)
    finally:
        for folder in mounted:
            demo.run(["umount", "--lazy", str(folder)], check=False)


def try_it(demo: Any, url: str, place: Path) -> None:
    filler = str(place / "filler")
    with Caller(url, "student14") as caller:
        student, other = caller.person, Person(url, "student15")
        assert other.api("GET", "/user").status_code == 200  # with a token of the time before
        assert student.launch(LAUNCH).status_code in (201, 202)
        student.wait_ready()
        time.sleep(2)  # the Hub writes what it has heard of the session

        demo.run(["dd", "if=/dev/zero", f"of={filler}", "bs=64k"], check=False)
        demo.run(["sh", "-c", f"yes >> {filler}"], check=False)

        # Who is in stays in, sees pages and opens the session.
        for path in ("/hub/home", "/hub/spawn", "/services/portal/", "/services/portal/catalog"):
            well_said(student.http.get(path))
        assert "student14" in student.page("/hub/home")
        assert student.session("GET", "api/status").status_code == 200
        assert caller.get("cluster").status_code == 200
        # Who comes is let in, or told why not.
        late = Person(url, "student16")
        well_said(late.login_answer)
        # Nothing new is begun.
        refused = other.launch(LAUNCH)
        assert "disk is full" in well_said(refused) and refused.status_code >= 400
        assert not living_jobs(demo, "student15")
        # What is stopped is stopped.
        student.stop(timeout=60)
        wait_until("its job is over", lambda: not living_jobs(demo, "student14"), 60)

        demo.run(["rm", filler])
        began = time.monotonic()
        wait_until(
            "launches are taken", lambda: other.launch(LAUNCH).status_code in (201, 202), BACK
        )
        assert Person(url, "student16").logged_in
        for path in ("/hub/home", "/services/portal/", "/services/portal/catalog"):
            assert other.http.get(path).status_code == 200
        assert time.monotonic() - began < 2 * BACK
        other.wait_ready()
        other.stop()
