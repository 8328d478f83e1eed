"""Jobs and students beside those that a picture is about: cluster and course look in use."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from .demo import START, Demo

QUESTION = "My loss is NaN after epoch 3"
STUDENTS = ("student01", "student02", "student03", "student04")
COURSE = "course-dl101"
# User, name of the job, GPUs. Simulated GPUs are busy or idle as the name says.
RUNNING = (
    ("grace", "busy-bert", "v100:4"),
    ("barbara", "busy-resnet50", "v100:2"),
    ("student07", "busy-exercise", "t4:1"),
    ("student12", "idle-exercise", "t4:1"),
)
# It waits for the first, of the same name. Slurm adds some minutes to its estimates meanwhile.
WAITING = (("grace", "busy-bert", "v100:4"),)


@contextlib.contextmanager
def jobs(demo: Demo, *wanted: tuple[str, str, str]) -> Iterator[None]:
    """Keep jobs of other users in the queue; cancel them at the end."""
    people = (demo.running.state or {})["form"] == "people"
    numbers = []
    for name, title, gpus in wanted:
        words = ["sbatch", "--parsable", f"--job-name={title}", f"--gres=gpu:{gpus}"]
        words += ["--dependency=singleton", "--time=30", "--output=/dev/null", "--wrap=sleep 1800"]
        # In a demo of a single account, all jobs are that account's.
        done = demo.running.run(words, user=name if people else None)
        numbers.append((name if people else None, done.stdout.strip()))
    try:
        yield
    finally:
        for name, number in numbers:
            demo.running.run(["scancel", number], user=name)


@contextlib.contextmanager
def class_in_session(demo: Demo) -> Iterator[Any]:
    """Keep some students in the course; yield the page of the first one, who raises a hand. Stop
    their sessions at the end."""
    for name in STUDENTS[1:]:
        with demo.visit(name) as page:
            begin(page, name)
            page.wait_for_timeout(1000)
    with demo.visit(STUDENTS[0]) as page:
        begin(page, STUDENTS[0])
        page.wait_for_url(re.compile(f"/user/{STUDENTS[0]}/{COURSE}/lab"), timeout=START)
        page.get_by_role("button", name=re.compile("^Raise hand")).click(timeout=START)
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("textbox").fill(QUESTION)
        dialog.get_by_role("button").last.click()
        try:
            yield page
        finally:
            page.goto("about:blank")
            demo.stop_all(*STUDENTS)


def begin(page: Any, name: str) -> None:
    """Start or open the session of the course, on the Sessions page."""
    page.get_by_role("link", name=re.compile("^(Start|Open|Show progress)")).first.click()
    page.wait_for_url(re.compile(f"/{name}/{COURSE}"))
