"""Work and space of sessions that the version before this one started, from their names and
options, and of what it has stored in the Hub's database."""

from __future__ import annotations

from typing import Any

import pytest
from jupyterhub import orm
from session_records import owner_of

from portal.launch.course_space import CourseSpace
from portal.launch.kinds import KINDS, Kind, Unknown, requested_kind, stored_kind
from portal.launch.kinds.jupyterlab import JupyterLab
from portal.launch.kinds.program import MARIMO, program_kind
from portal.models.session.run import AskedRun
from portal.spaces.job_space import MINE
from portal.store.migrations.work import work_and_space
from portal.work.course.kind import Preview, Rehearsal, Room
from portal.work.kernel.kind import JobKernel
from portal.work.run.kind import Run
from portal.work.tensorboard.kind import TensorBoard
from spawners.lifecycle.session_history import stored_record
from spawners.resize.queueing import whole_options
from spawners.session import kind_of_row

ID = "5e2f3c1a"
KERNEL, RUN = {"id": ID, "name": "python3"}, {"id": ID, "name": "r"}
STARTED = [
    ("", {}, JupyterLab, ""),
    ("second", {"environment": "lab", "gpus": 1}, JupyterLab, ""),
    ("course-", {}, JupyterLab, ""),
    ("course-Deep", {}, JupyterLab, ""),
    (f"course-{'d' * 21}", {}, JupyterLab, ""),
    ("kernel-mine", {}, JupyterLab, ""),
    ("", {"kind": "marimo"}, program_kind(MARIMO), ""),
    ("tensorboard", {"tensorboard": ["~/logs"]}, TensorBoard, ""),
    (f"kernel-{ID}", {"kernel": KERNEL}, JobKernel, ""),
    (f"kernel-{ID}", {"kernel": {**KERNEL, "course": "deep"}}, JobKernel, "deep"),
    (f"kernel-{ID}", {"kernel": "damaged"}, JobKernel, ""),
    (f"run-{ID}", {"run": RUN}, Run, ""),
    (f"run-{ID}", {"run": {**RUN, "course": "deep"}}, Run, "deep"),
    ("course-deep", {"course": "deep"}, JupyterLab, "deep"),
    ("course-deep-2", {"course": "deep-2"}, JupyterLab, "deep-2"),
    ("rehearsal-deep", {"course": "deep"}, Rehearsal, "deep"),
    ("preview-deep", {"course": "deep"}, Preview, "deep"),
    ("room-deep", {"course": "deep"}, Room, "deep"),
    ("", {"kind": "of-a-package-that-was-removed"}, Unknown, ""),
]


@pytest.mark.parametrize(("server", "options", "kind", "space"), STARTED)
def test_what_an_earlier_version_started(
    server: str, options: dict[str, Any], kind: type[Kind], space: str
) -> None:
    work, of_course = work_and_space(server, options)
    assert (stored_kind(work), of_course) == (kind, space)
    # The state of a server in the Hub's database.
    row = orm.Spawner(name=server, state={"last_options": options, "job_id": "7"})
    assert kind_of_row(row) is kind
    # Its record there, as it was before it had them.
    before = {"id": "s", "user": "ada", "server": server, "options": options, "course": space}
    record = stored_record({**before, "submitted_at": 1.0})
    assert (record.work, record.space) == (work, space)
    assert stored_record(record.model_dump()) == record


def test_what_is_stored_counts_and_not_the_name() -> None:
    row = orm.Spawner(name="course-deep", state={"work": "marimo", "space": ""})
    assert kind_of_row(row) is program_kind(MARIMO)
    assert kind_of_row(orm.Spawner(name="course-deep", state=None)) is JupyterLab


@pytest.mark.parametrize("space", [MINE, CourseSpace(name="deep")])
def test_what_a_kind_is_asked_for_by_stays_when_its_session_moves(
    space: CourseSpace | None,
) -> None:
    run = {**RUN, "source": "r.py", "folder": "/r", "points": 1, "course": space.name}
    kinds: list[Kind] = [
        JupyterLab(space=space),
        JobKernel(id=ID, kernel="python3", space=space),
        Run(run=AskedRun.model_validate(run), space=space),
    ]
    for kind in kinds:
        before = {"environment": "lab", "cpus": 1, **kind.own()}
        assert requested_kind(whole_options(before, {"cpus": 2})) == kind


def test_each_kind_is_stored_under_a_name_of_its_own() -> None:
    for kind in KINDS:
        assert stored_kind(kind.name) is kind
    assert owner_of("course-deep") is JupyterLab
