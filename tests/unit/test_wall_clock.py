"""Durations, ages and freshness go by the monotonic clock; the machine's clock, which may be set at
any time, is for what people, files, rows and other programs say. Each file that reads it stands
here with how often, and why."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

RECORD = "the moment of a row, an event or a message, to be shown"
CALENDAR = "compared with moments that people, rows or Slurm name: meetings, ends, periods"
FILE = "compared with the times of files"
ROW = "an age across restarts of the service: the beginning stands in a row"
GIVEN = "handed on as the time of day; what compares it says so where it does"

WHY: dict[str, tuple[int, str]] = {
    "kernels/portal_session/activity.py": (1, "the Hub takes activity as a time of day"),
    "kernels/portal_session/course/course.py": (
        1,
        "JupyterHub's server gives activity as a time of day",
    ),
    "kernels/portal_session/notebooks/executions.py": (7, FILE),
    "kernels/portal_session/notebooks/merging.py": (1, "part of a file's name"),
    "kernels/portal_session/notebooks/unattended.py": (1, FILE),
    "kernels/portal_session/situation.py": (1, RECORD),
    "kernels/portal_session/startup.py": (1, RECORD),
    "kernels/portal_session/tensorboard/logs.py": (1, RECORD),
    "kernels/portal_session/tensorboard/running.py": (3, "a file that outlives this process says"),
    "kernels/portal_session/tensorboard/runtime.py": (1, FILE),
    "portal/catalog/builds/ages.py": (1, ROW),
    "portal/catalog/builds/building.py": (2, RECORD),
    "portal/catalog/builds/image_files.py": (1, FILE),
    "portal/catalog/builds/job_monitor.py": (1, RECORD),
    "portal/catalog/builds/testing.py": (2, RECORD),
    "portal/catalog/builds/work_logs.py": (1, FILE),
    "portal/catalog/versions/curating.py": (2, RECORD),
    "portal/catalog/versions/history.py": (4, RECORD),
    "portal/catalog/versions/publishing.py": (1, RECORD),
    "portal/courses/command.py": (4, RECORD),
    "portal/courses/definition/readiness.py": (1, CALENDAR),
    "portal/courses/definition/service.py": (5, CALENDAR),
    "portal/courses/files/collecting.py": (1, RECORD),
    "portal/courses/files/handouts.py": (1, RECORD),
    "portal/courses/files/tree.py": (1, "a commit of git's"),
    "portal/courses/roster/enrolment.py": (1, RECORD),
    "portal/courses/roster/my_courses.py": (1, CALENDAR),
    "portal/courses/roster/unenrol.py": (1, CALENDAR),
    "portal/courses/schedule/loop.py": (1, CALENDAR),
    "portal/dashboard/dashboard.py": (2, "the history's and the meter's, which sees steps itself"),
    "portal/demo/course.py": (2, CALENDAR),
    "portal/demo/daemons/certificates.py": (2, "a certificate's validity"),
    "portal/demo/environments/environments.py": (1, FILE),
    "portal/estimates/estimator.py": (7, "starts that Slurm names, and when an answer was made"),
    "portal/estimates/judging.py": (1, "compared with the starts that Slurm names"),
    "portal/estimates/questions.py": (1, "compared with the start that Slurm names"),
    "portal/handlers/admin/announcements.py": (3, CALENDAR),
    "portal/handlers/catalog/favourites.py": (1, RECORD),
    "portal/handlers/catalog/measurements.py": (1, RECORD),
    "portal/handlers/catalog/registries.py": (1, RECORD),
    "portal/handlers/catalog/requests.py": (2, RECORD),
    "portal/handlers/cluster/history.py": (2, CALENDAR),
    "portal/handlers/cluster/usage.py": (4, CALENDAR),
    "portal/handlers/courses/collects.py": (1, RECORD),
    "portal/handlers/courses/courses.py": (2, CALENDAR),
    "portal/handlers/courses/handouts.py": (1, RECORD),
    "portal/handlers/courses/lifecycle.py": (1, CALENDAR),
    "portal/handlers/courses/live.py": (9, CALENDAR),
    "portal/handlers/courses/people.py": (3, CALENDAR),
    "portal/handlers/courses/room.py": (2, CALENDAR),
    "portal/handlers/courses/starts.py": (3, CALENDAR),
    "portal/handlers/pages/courses.py": (3, CALENDAR),
    "portal/handlers/pages/rendering.py": (1, RECORD),
    "portal/services/core.py": (1, RECORD),
    "portal/services/course_boards.py": (2, CALENDAR),
    "portal/services/course_status.py": (2, CALENDAR),
    "portal/services/course_work.py": (1, GIVEN),
    "portal/services/session_status.py": (3, CALENDAR),
    "portal/handlers/sessions/estimates.py": (1, CALENDAR),
    "portal/handlers/sessions/extend.py": (1, CALENDAR),
    "portal/handlers/sessions/notices.py": (1, RECORD),
    "portal/handlers/sessions/session.py": (1, RECORD),
    "portal/handlers/sessions/sessions.py": (1, CALENDAR),
    "portal/handlers/sessions/telemetry.py": (1, RECORD),
    "portal/images/job.py": (2, RECORD),
    "portal/images/jobs/build_dir.py": (1, FILE),
    "portal/images/jobs/building.py": (1, RECORD),
    "portal/images/jobs/node_cache.py": (4, FILE),
    "portal/images/jobs/smoke.py": (1, RECORD),
    "portal/launch/availability.py": (1, CALENDAR),
    "portal/launch/policy.py": (1, CALENDAR),
    "portal/models/cluster/cluster.py": (
        1,
        "the age of a snapshot that this process did not ask for",
    ),
    "portal/notices/notices.py": (1, CALENDAR),
    "portal/sessions/idle_gpus.py": (1, "rows of snoozes; it counts idle time by the uptime"),
    "portal/slurm/jobs/end.py": (1, "compared with the end that Slurm names"),
    "portal/slurm/watch/watched.py": (1, RECORD),
    "portal/store/engine/database.py": (1, RECORD),
    "portal/telemetry/__init__.py": (2, "compared with the times that Prometheus gives"),
    "portal/telemetry/prometheus.py": (1, "compared with the times that Prometheus gives"),
    "portal/telemetry/simulated.py": (1, "in the place of the times that Prometheus gives"),
    "spawners/api/estimates.py": (1, RECORD),
    "spawners/form/announcements.py": (2, CALENDAR),
    "spawners/form/form.py": (1, CALENDAR),
    "spawners/form/words.py": (2, CALENDAR),
    "spawners/launch/courses.py": (4, CALENDAR),
    "spawners/lifecycle/culler.py": (1, "compared with activity as JupyterHub's database has it"),
    "spawners/lifecycle/reconciler.py": (1, RECORD),
    "spawners/lifecycle/session_history.py": (5, RECORD),
    "spawners/lifecycle/session_recorder.py": (1, CALENDAR),
    "spawners/resize/queueing.py": (1, RECORD),
    "spawners/resize/resize.py": (
        2,
        "the moment of a row; its age goes by the uptime from then on",
    ),
    "spawners/session.py": (1, RECORD),
}


def wall_clocks(source: str) -> int:
    """How often a module reads the machine's clock, under whatever name it imports it."""
    tree, names = ast.parse(source), {"utcnow"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            names |= {one.asname or one.name for one in node.names if one.name.startswith("time")}
    found = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
            found += (owner, node.attr) in {("time", "time"), ("time", "time_ns")}
            found += owner in ("datetime", "date") and node.attr in ("now", "today", "utcnow")
        elif isinstance(node, ast.Name) and node.id in names:
            found += 1
    return found


FOUND = {
    str(path.relative_to(ROOT)): number
    for room in ("portal", "spawners", "kernels")
    for path in sorted((ROOT / room).rglob("*.py"))
    if "node_modules" not in path.parts and (number := wall_clocks(path.read_text()))
}


@pytest.mark.parametrize("path", sorted({*FOUND, *WHY}))
def test_who_reads_the_machines_clock_says_why(path: str) -> None:
    number, _ = WHY.get(path, (0, ""))
    assert FOUND.get(path, 0) == number, "time.monotonic() measures; else say why here"


@pytest.mark.parametrize(
    ("source", "number"),
    [
        ("import time\ntime.time()", 1),
        ("import time\nf(clock=time.time)", 1),
        ("import time\ntime.time_ns()", 1),
        ("from time import time\ntime()", 1),
        ("from time import time as now\nnow()", 1),
        ("from datetime import datetime\ndatetime.now()", 1),
        ("import datetime\ndatetime.datetime.now()", 1),
        ("import datetime\ndatetime.date.today()", 1),
        ("from jupyterhub.utils import utcnow\nutcnow()", 1),
        ("import time\ntime.monotonic()", 0),
        ("job.time", 0),
    ],
)
def test_the_rule_sees_every_spelling(source: str, number: int) -> None:
    assert wall_clocks(source) == number
