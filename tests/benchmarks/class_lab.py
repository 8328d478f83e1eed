"""A class of thirty with real JupyterLab in containers, on the demo's course; and the time from a
student's click to a Lab that was started ahead."""

from __future__ import annotations

import json
import re
import statistics
import tempfile
import time
from typing import Any

from api_client import Caller
from playwright.sync_api import sync_playwright

from tests.support.demo.hub_client import PASSWORD, Person

from .class_start import class_of
from .cluster import Cluster, NotMeasured, wait_for
from .lab import answers, shipped, submit_by_hand, wait_for_none
from .page import FLAGS, PROGRAM
from .paint import usable
from .report import Row

COURSE, SERVER, TEACHER = "dl101", "course-dl101", "barbara"
STUDENTS = tuple(f"student{number:02}" for number in range(1, 31))
_CLASS = f"A class of {len(STUDENTS)} with JupyterLab in containers"
_CLICK = "A session that was started ahead"
WHAT = (_CLASS, _CLICK)
RESOURCES: dict[str, Any] = {"gpus": 0, "cpus": 1, "memory": "2G", "time": "0:30:00"}
PATIENCE = 600.0
TIMES = 5


def measure(cluster: Cluster) -> list[Row]:
    """Return the rows; takes some minutes."""
    hand = _by_hand(cluster)
    with Caller(str(cluster.state["url"]), TEACHER) as teacher:
        try:
            student = Person(str(cluster.state["url"]), STUDENTS[0])
            student.launch({"course": COURSE}, SERVER).raise_for_status()
            student.wait_ready(SERVER)
            clicks, reloads = _clicks(cluster)
        finally:
            _stop_all(cluster, teacher)
        try:
            ready, total = _start_all(teacher)
        finally:
            _stop_all(cluster, teacher)
    last, peer = max(ready), max(hand)
    click, reload = statistics.median(clicks), statistics.median(reloads)
    print(f"  by hand: {peer:.1f} s, portal: {last:.1f} s; clicks {clicks}, reloads {reloads}")
    return [
        Row(
            f"{_CLASS}: the last is ready",
            last,
            "s",
            f"{len(STUDENTS)} plain sbatch",
            peer,
            goal="at most 1.3 x peer",
            met=last <= 1.3 * peer,
        ),
        Row(f"{_CLASS}: are ready", len(ready), "", goal=str(total), met=len(ready) == total),
        Row(
            f"{_CLICK}: click to usable Lab in Chromium",
            click,
            "s",
            "that Lab loaded again",
            reload,
            goal="at most peer + 0.5 s, under 3 s",
            met=click <= reload + 0.5 and click < 3,
        ),
    ]


def _by_hand(cluster: Cluster) -> list[float]:
    """Submit a server per student, one after another; return the seconds until each answers."""
    environment = shipped(cluster)
    cluster.posts()
    began, jobs = time.monotonic(), []
    waiting: dict[str, str] = {}
    seconds: list[float] = []
    try:
        for name in STUDENTS:
            jobs.append(submit_by_hand(cluster, name, environment, RESOURCES))

        def all_there() -> bool:
            for name, (_, body) in cluster.posts().items():
                waiting[name] = f"http://127.0.0.1:{json.loads(body)['port']}/user/{name}/api"
            for name in [name for name, url in waiting.items() if answers(url)]:
                del waiting[name]
                seconds.append(time.monotonic() - began)
            return len(seconds) == len(STUDENTS)

        wait_for("the Labs by hand", all_there, PATIENCE, 0.2)
    finally:
        cluster.run("scancel", *jobs)
        wait_for_none(cluster)
    return seconds


def _stop_all(cluster: Cluster, teacher: Caller) -> None:
    teacher.post(f"courses/{COURSE}/stop-all", json={"people": None})
    wait_for("the end of the class", lambda: not cluster.run("squeue", "-h").split(), 120)


def _start_all(teacher: Caller) -> tuple[list[float], int]:
    """Return the seconds from "Start all" to each ready session, and the expected number."""
    progress, ready = class_of(teacher, COURSE, PATIENCE, 1.0)
    if progress["report"]["failed"]:
        raise NotMeasured(f"some failed: {progress['report']['failures']}")
    return ready, progress["report"]["total"]


def _clicks(cluster: Cluster) -> tuple[list[float], list[float]]:
    """Return the seconds from clicks on the course's button to a usable Lab, and of its reloads."""
    if not PROGRAM:
        raise NotMeasured("no chromium on this machine")
    url, clicks, reloads = str(cluster.state["url"]), [], []
    with tempfile.TemporaryDirectory() as profile, sync_playwright() as started:
        # A browser that keeps compiled code, as a person's own does.
        browser = started.chromium.launch_persistent_context(
            profile,
            executable_path=PROGRAM,
            args=FLAGS,
            viewport={"width": 1400, "height": 900},
        )
        page = browser.new_page()
        page.goto(f"{url}/hub/login?next=%2Fhub%2Fhome")
        page.get_by_label("User name").fill(STUDENTS[0])
        page.get_by_label("Password", exact=True).fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        for turn in range(TIMES + 1):
            page.goto(f"{url}/services/portal/sessions")
            button = page.get_by_role("link", name=re.compile("Deep Learning 101")).first
            button.wait_for()
            began = time.monotonic()
            button.click()
            page.wait_for_url(re.compile(f"/user/{STUDENTS[0]}/{SERVER}/lab"))
            usable(page)
            click = time.monotonic() - began
            began = time.monotonic()
            page.reload(wait_until="commit")
            usable(page)
            if turn:  # the first fills the browser's cache and includes the confirmation page
                clicks.append(click)
                reloads.append(time.monotonic() - began)
        browser.close()
    return clicks, reloads
