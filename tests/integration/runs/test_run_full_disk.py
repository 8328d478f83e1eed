"""Runs on a disk that is full: a real, small one, which only the process under test sees."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from portal_session.runs.plan import Plan
from run_site import PlayedService, RunSite

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")

SMALL = """set -e
cp -r "$1" "$2"
mount -t tmpfs -o size=400k none "$1"
cp -r "$2"/. "$1"
shift 2
exec "$@"
"""
POINT = "portal_session.runs.point"
ADVICE = "No space left on device. Delete files that you do not need, then run it again."


def apart(site: RunSite, folder: str, *argv: str, **variables: str) -> tuple[int, str]:
    """Run a program that sees ``folder`` on a disk of 400 kB, which has its files."""
    namespace = ("unshare", "--mount", "--propagation=private", "sh", "-c", SMALL, "sh")
    done = subprocess.run(
        [*namespace, folder, f"{folder}.copy", *argv],
        env={**site.environ, **variables},
        cwd=site.home,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stdout


def execute(site: RunSite, plan: Plan) -> tuple[int, str]:
    named = {"id": plan.id, "name": plan.name, "folder": str(plan.folder), "points": plan.points}
    variables = {"PORTAL_RUN": json.dumps(named), "SLURM_ARRAY_TASK_ID": "0"}
    # Nobody else sees that disk: the manifest is what is said last.
    shown = 'shift; "$@"; code=$?; echo; cat "$0"/0000/manifest.json; exit $code'
    program = ("sh", "-c", shown, str(plan.folder), "", sys.executable, "-m", POINT)
    return apart(site, str(plan.folder), *program, **variables)


def test_the_log_of_a_script(site: RunSite, service: PlayedService) -> None:
    """The script goes on with its work; the point says what is missing."""
    done = site.work / "done"
    text = f"for _ in range(100): print('x' * 9999)\nopen({str(done)!r}, 'w')"
    code, said = execute(site, site.plan(site.script(text)))
    assert (code, done.exists()) == (1, True), said
    assert service.last(0)["message"] == f"output.log cannot be written: {ADVICE}"
    assert "manifest.json has the end of the point, but not all else: No space left" in said
    assert "Traceback" not in said
    about = json.loads(said.splitlines()[-1])
    assert about["state"] == "failed" and about["message"].startswith("output.log cannot be")


def test_a_point_that_succeeds_is_not_executed_again(site: RunSite, service: PlayedService) -> None:
    """By its manifest: the disk is full when it ends."""
    text = (
        "try:\n    with open('runs/train/filler', 'wb', buffering=0) as file:\n"
        "        while file.write(b'x' * 1000): pass\nexcept OSError: pass"
    )
    plan = site.plan(site.script(text))
    code, said = execute(site, plan)
    assert code == 0, said
    about = json.loads(said.splitlines()[-1])
    assert about["state"] == "succeeded" and about["ended_at"]


def test_the_notebook_of_a_point(site: RunSite, service: PlayedService) -> None:
    cell = "from IPython.display import Markdown, display\n"
    cell += "for _ in range(60): display(Markdown('x' * 9999))"
    code, said = execute(site, site.plan(site.notebook(cell)))
    assert code == 1 and "Traceback" not in said
    assert service.last(0)["message"] == f"output.ipynb cannot be written: {ADVICE}"


def test_a_checkpoint_that_has_no_room(site: RunSite, service: PlayedService) -> None:
    """The loop goes on, and the point succeeds."""
    text = (
        "import time\nfrom pathlib import Path\nfrom portal_checkpoint import resumed\n"
        "seen = []\n"
        "for step in resumed(range(3), minutes=0, seen=seen):\n"
        "    seen.append(str(step) * 600_000)\n    time.sleep(0.5)\n"
        f"Path({str(site.work / 'seen')!r}).write_text(str(len(seen)))"
    )
    plan = site.plan(site.script(text))
    code, said = execute(site, plan)
    assert (code, (site.work / "seen").read_text()) == (0, "3"), said
    assert service.last(0)["state"] == "succeeded"


def test_a_run_that_cannot_be_frozen(site: RunSite) -> None:
    """It leaves nothing behind."""
    site.script("x = 1\n" * 100_000)
    program = (
        "import os; from pathlib import Path\n"
        "from portal_session.runs import RunError\n"
        "from portal_session.runs.plan import freeze\n"
        "from portal_session.runs.source import read_source\n"
        "try: freeze(read_source(Path('work/train.py')), [{}], 'train')\n"
        "except RunError as error: print(error)\n"
        "print(os.listdir('work/runs') if os.path.exists('work/runs') else [])"
    )
    (site.work / "runs").mkdir()
    code, said = apart(site, str(site.work / "runs"), sys.executable, "-c", program)
    assert code == 0, said
    *_, sentence, left = said.splitlines()
    assert sentence == f"The run cannot be written to {site.work / 'runs/train'}: {ADVICE}"
    assert left == "[]"
