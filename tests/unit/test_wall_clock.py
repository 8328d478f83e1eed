"""Durations, ages and freshness go by the monotonic clock; the machine's clock, which may be set at
any time, is for what people, files, rows and other programs say. Each file that reads it stands
here with how often, and why."""

from __future__ import annotations

import ast

import pytest
from conftest import ROOT

READS: dict[str, dict[str, int]] = {
    "the moment of a row, an event or a message, to be shown": {
        "kernels/portal_session/job_kernels/wire/messages.py": 1,
        "kernels/portal_session/runs/archive/bag.py": 1,
        "kernels/portal_session/runs/archive/citation.py": 1,
        "kernels/portal_session/runs/archive/command.py": 1,
        "kernels/portal_session/runs/execution/manifest.py": 1,
        "kernels/portal_session/runs/plan.py": 1,
        "kernels/portal_session/runs/tracking/mlflow_values.py": 1,
        "kernels/portal_session/runs/execution/repetition.py": 1,
        "kernels/portal_session/situation.py": 1,
        "kernels/portal_session/startup.py": 1,
        "kernels/portal_session/tensorboard/logs.py": 1,
        "portal/catalog/builds/building.py": 2,
        "portal/catalog/builds/job_monitor.py": 1,
        "portal/catalog/builds/testing.py": 2,
        "portal/catalog/versions/curating.py": 2,
        "portal/catalog/versions/history.py": 4,
        "portal/catalog/versions/publishing.py": 1,
        "portal/courses/command.py": 4,
        "portal/demo/showcase/showcase.py": 1,
        "portal/doctor/app.py": 1,
        "portal/logs/request.py": 1,
        "portal/courses/files/collecting.py": 1,
        "portal/courses/files/handouts.py": 1,
        "portal/courses/roster/enrolment.py": 1,
        "portal/handlers/catalog/favourites.py": 1,
        "portal/handlers/catalog/measurements.py": 1,
        "portal/handlers/catalog/registries.py": 1,
        "portal/handlers/catalog/requests.py": 2,
        "portal/handlers/courses/collects.py": 1,
        "portal/handlers/courses/handouts.py": 1,
        "portal/handlers/pages/rendering.py": 1,
        "portal/handlers/sessions/notices.py": 1,
        "portal/work/run/endpoints/outputs.py": 1,
        "portal/work/run/endpoints/reports.py": 1,
        "portal/work/run/endpoints/schedules.py": 2,
        "portal/work/run/endpoints/start.py": 1,
        "portal/handlers/sessions/session.py": 1,
        "portal/handlers/sessions/telemetry.py": 1,
        "portal/home/pages.py": 1,
        "portal/home/sessions.py": 1,
        "portal/home/site.py": 1,
        "portal/home/visits.py": 1,
        "portal/work/course/home.py": 1,
        "portal/images/job.py": 2,
        "portal/images/jobs/building.py": 1,
        "portal/images/jobs/smoke.py": 1,
        "portal/audit_log.py": 1,
        "portal/backup/making.py": 1,
        "portal/backup/outcome.py": 1,
        "portal/gateway/forwarding.py": 1,
        "portal/gateway/state.py": 1,
        "portal/slurm/watch/query_cache.py": 1,
        "portal/work/run/launches/repeats.py": 1,
        "portal/projects/elsewhere/repeating.py": 1,
        "portal/projects/elsewhere/session_files.py": 1,
        "portal/store/engine/database.py": 1,
        "portal/work/run/tables/reopenings.py": 1,
        "portal/work/run/tables/points.py": 1,
        "portal/work/run/tables/shares.py": 2,
        "spawners/api/ended.py": 1,
        "spawners/api/estimates.py": 1,
        "spawners/lifecycle/reconciler.py": 1,
        "spawners/lifecycle/session_history.py": 5,
        "spawners/resize/queueing.py": 1,
        "spawners/spawner.py": 2,
        "spawners/session.py": 1,
    },
    "compared with moments that people, rows or Slurm name: meetings, ends, periods": {
        "portal/health/watch.py": 1,
        "portal/doctor/checks/advisories.py": 1,
        "portal/courses/definition/readiness.py": 1,
        "portal/courses/definition/service.py": 5,
        "portal/courses/roster/my_courses.py": 1,
        "portal/projects/money/endpoints.py": 2,
        "portal/projects/people/leaving.py": 1,
        "portal/projects/people/members.py": 1,
        "portal/projects/money/funds.py": 2,
        "portal/projects/parts.py": 1,
        "portal/projects/served.py": 1,
        "portal/projects/service.py": 5,
        "portal/projects/storage/endpoints.py": 1,
        "portal/projects/view.py": 2,
        "portal/projects/visits/endpoints.py": 4,
        "portal/courses/roster/unenrol.py": 1,
        "portal/courses/schedule/loop.py": 1,
        "portal/demo/course.py": 2,
        "portal/handlers/admin/announcements.py": 3,
        "portal/handlers/cluster/history.py": 4,
        "portal/handlers/cluster/job_use.py": 2,
        "portal/work/kernel/endpoints.py": 1,
        "portal/handlers/cluster/usage.py": 4,
        "portal/handlers/courses/courses.py": 2,
        "portal/handlers/courses/lifecycle.py": 1,
        "portal/handlers/courses/live.py": 10,
        "portal/handlers/courses/people.py": 3,
        "portal/handlers/courses/room.py": 3,
        "portal/handlers/courses/starts.py": 3,
        "portal/handlers/pages/courses.py": 3,
        "portal/handlers/sessions/estimates.py": 1,
        "portal/handlers/sessions/extend.py": 3,
        "portal/handlers/sessions/sessions.py": 1,
        "portal/launch/availability.py": 1,
        "portal/launch/policy.py": 2,
        "portal/work/run/endpoints/folders.py": 1,
        "portal/work/run/endpoints/form.py": 1,
        "portal/work/run/endpoints/use.py": 2,
        "portal/work/run/living.py": 3,
        "spawners/lifecycle/orphans.py": 3,
        "portal/notices/notices.py": 1,
        "portal/work/run/notices.py": 1,
        "portal/courses/live/boards.py": 2,
        "portal/work/run/launches/scheduler.py": 1,
        "portal/work/run/follower.py": 4,
        "portal/courses/live/situations.py": 2,
        "portal/work/kernel/environments.py": 1,
        "portal/sessions/situations.py": 3,
        "spawners/form/announcements.py": 2,
        "spawners/form/form.py": 1,
        "spawners/form/words.py": 3,
        "spawners/launch/courses.py": 1,
        "spawners/launch/spaces.py": 4,
        "spawners/lifecycle/session_recorder.py": 1,
    },
    "compared with the times of files": {
        # The clock of this node, with that of the file system.
        "kernels/portal_session/runs/ranks/team.py": 1,
        "portal/courses/files/archives.py": 1,
        "kernels/portal_session/job_kernels/job/past.py": 1,
        "kernels/portal_session/notebooks/executions.py": 5,
        "kernels/portal_session/notebooks/kernel_follower.py": 2,
        "kernels/portal_session/notebooks/unattended.py": 1,
        "kernels/portal_session/programs/runtime.py": 1,
        "kernels/portal_session/uploads/store.py": 1,
        "portal/catalog/builds/image_files.py": 1,
        "portal/catalog/builds/work_logs.py": 1,
        "portal/demo/environments/environments.py": 1,
        "portal/images/jobs/build_dir.py": 1,
        "portal/images/jobs/node_cache.py": 4,
    },
    "compared with the times that Prometheus gives": {
        "portal/telemetry/__init__.py": 2,
        "portal/telemetry/prometheus.py": 1,
    },
    "activity, which JupyterHub takes and gives as a time of day": {
        "kernels/portal_session/activity.py": 1,
        "kernels/portal_session/course/course.py": 1,
        "spawners/lifecycle/culler.py": 1,
    },
    "part of a file's name": {
        "kernels/portal_session/course/merging.py": 1,
        "kernels/portal_session/runs/tracking/tracking.py": 1,
    },
    "a file that outlives this process says": {"kernels/portal_session/tensorboard/running.py": 3},
    "an age across restarts of the service: the beginning stands in a row": {
        "portal/catalog/builds/ages.py": 1,
        "portal/catalog/builds/auto_test.py": 1,
        "portal/work/run/tables/searches.py": 3,
    },
    "a commit of git's": {"portal/courses/files/tree.py": 1},
    "the history's and the meter's, which sees steps itself": {"portal/dashboard/dashboard.py": 2},
    "the moment of a failure, to be shown; and the start that Slurm expects, in Retry-After": {
        "portal/gateway/places.py": 2
    },
    "a certificate's validity": {
        "portal/gateway/keys.py": 1,
        "kernels/portal_session/job_kernels/wire/keys.py": 1,
        "kernels/portal_session/clusters/leaf.py": 1,
        "portal/demo/daemons/certificates.py": 2,
    },
    "starts that Slurm names, and when an answer was made": {"portal/estimates/estimator.py": 7},
    "compared with the starts and ends that Slurm names": {
        "portal/backup/jobs.py": 1,
        "portal/work/run/endpoints/choices.py": 1,
        "kernels/portal_session/runs/live/kept_kernel.py": 2,
        "kernels/portal_session/clusters/dask/kept.py": 1,
        "kernels/portal_session/clusters/kept/starter.py": 1,
        "kernels/portal_session/runs/point.py": 2,
        "portal/estimates/judging.py": 1,
        "portal/work/kernel/endpoints.py": 1,
        "portal/estimates/questions.py": 1,
        "portal/slurm/jobs/end.py": 1,
    },
    "handed on as the time of day; what compares it says so where it does": {
        "kernels/portal_session/clusters/job/ray_node.py": 1,
        "portal/work/course/parts.py": 1,
        "portal/work/benchmarks/parts.py": 1,
    },
    "rows of replica sets, and the times in rows of sessions": {
        "portal/metrics/figures.py": 1,
        "portal/work/benchmarks/collector.py": 4,
        "portal/work/benchmarks/endpoints.py": 1,
        "portal/work/cluster/endpoints.py": 1,
        "portal/work/cluster/kept.py": 2,
        "portal/work/endpoint/action.py": 3,
        "portal/work/endpoint/catalog/endpoints.py": 1,
        "portal/work/endpoint/catalog/testing.py": 1,
        "portal/work/endpoint/collector.py": 1,
        "portal/work/endpoint/endpoints.py": 1,
        "portal/work/endpoint/keeping/examples.py": 1,
        "portal/work/endpoint/figure_endpoints.py": 1,
        "portal/work/endpoint/keeping/keeper.py": 1,
        "portal/work/endpoint/keeping/owners.py": 1,
        "portal/work/endpoint/reports.py": 1,
        "portal/work/replicas/endpoints.py": 1,
        "portal/work/replicas/reconciler.py": 1,
    },
    "the age of a snapshot that this process did not ask for": {
        "portal/models/cluster/cluster.py": 1,
    },
    "rows of snoozes; it counts idle time by the uptime": {"portal/sessions/idle_gpus.py": 1},
    "in the place of the times that Prometheus gives": {"portal/telemetry/simulated.py": 1},
    "the moment of a row; its age goes by the uptime from then on": {
        "spawners/resize/resize.py": 2,
    },
}
EXPECTED = {path: number for files in READS.values() for path, number in files.items()}


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


@pytest.mark.parametrize("path", sorted({*FOUND, *EXPECTED}))
def test_who_reads_the_machines_clock_says_why(path: str) -> None:
    assert FOUND.get(path, 0) == EXPECTED.get(path, 0), (
        "time.monotonic() measures; else say why here"
    )


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.time()",
        "import time\nf(clock=time.time)",
        "import time\ntime.time_ns()",
        "from time import time\ntime()",
        "from time import time as now\nnow()",
        "from datetime import datetime\ndatetime.now()",
        "import datetime\ndatetime.datetime.now()",
        "import datetime\ndatetime.date.today()",
        "from jupyterhub.utils import utcnow\nutcnow()",
    ],
)
def test_the_rule_sees_every_spelling(source: str) -> None:
    assert wall_clocks(source) == 1


@pytest.mark.parametrize("source", ["import time\ntime.monotonic()", "job.time"])
def test_the_rule_sees_nothing_else(source: str) -> None:
    assert wall_clocks(source) == 0
