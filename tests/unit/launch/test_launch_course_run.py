"""A run of a course's session: its options, its place, and what it may hold beside the session. On
a real Slurm: tests/hub/courses/test_course_kernels.py."""

from __future__ import annotations

import json
from typing import Any

import pytest
from clusters import ADA, gpu_node, snapshot
from launch_lookup import PlayedLookup
from session_records import launched, owner_of
from stored_courses import a_course, stored

from portal.errors import InvalidRequest, NotAllowed
from portal.launch.course_space import CourseSpace
from portal.launch.kinds.closed import closed
from portal.launch.kinds.jupyterlab import JupyterLab
from portal.launch.kinds.kind import LaunchFacts, OtherLaunch, Place, SlurmLimits
from portal.launch.policy import decide
from portal.launch.request import Asked
from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import Partition
from portal.models.course.course import Course
from portal.models.session.resources import Resources
from portal.models.session.run import AskedRun
from portal.models.space import Role, SpaceState
from portal.spaces.job_space import MINE
from portal.work.member_gpus import MemberGpus, held_gpus, too_many_points
from portal.work.run.kind import Run
from portal.work.run.settings import Runs

ID = "5e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162"
SERVER = "run-5e2f3c1a0b7d4c8e9a6f"
RUN: dict[str, Any] = {
    "id": ID,
    "name": "rates",
    "source": "train.ipynb",
    "folder": "/home/ada/runs/rates",
    "points": 8,
    "at_once": 2,
    "course": "deep",
}
LAB = Environment(name="lab", title="Lab", kind="container", image="/i/lab.sif")
COURSE = a_course(
    default=Resources(cpus=1, memory="2G", time="2:00:00"),
    largest=Resources(gpus=2, cpus=4, memory="8G", time="4:00:00"),
    account="dl101",
)
CLASS = COURSE.model_copy(update={"runs": True})
CLUSTER = snapshot(gpu_node("gpu01", "v100", 4)).model_copy(
    update={"partitions": {"gpu": Partition(name="gpu", default=True, nodes=("gpu01",))}}
)


def hub(course: Course = CLASS, record: Any = None, **limits: int) -> Any:
    if record:
        record = AskedRun.model_validate(record)
    return PlayedLookup(LAB, in_course=course, record=record, settings=[Runs(**limits)])


async def placed(options: dict[str, Any], at: Any = None) -> Place:
    asked = Asked.parse(options)
    return await asked.kind.place(asked, at or hub(), LaunchFacts(CLUSTER, None))


def a_run(digit: str, after: str = "", **options: Any) -> OtherLaunch:
    """A launch of a run whose id has this digit."""
    about = {**RUN, "id": digit * 8, "after": after * 8, **options.pop("run", {})}
    return launched(f"run-{digit * 8}", {"gpus": 1, "cpus": 1, "run": about, **options})


def test_its_options_name_the_course() -> None:
    kind = Asked.parse({"gpus": 1, "run": RUN}).kind
    assert kind == Run(run=AskedRun(**RUN), space=CourseSpace(name="deep"))
    facts = (kind.space_name, kind.isolated, kind.serves, kind.array, kind.job_kernels)
    assert facts == ("deep", True, False, True, False)
    assert Asked.parse({"run": {**RUN, "course": ""}}).kind.space == MINE
    assert owner_of(SERVER) is Run and kind.at(SERVER, Run) is kind
    with pytest.raises(InvalidRequest, match=f"must have the name '{SERVER}'"):
        kind.at("course-deep", owner_of("course-deep"))


@pytest.mark.parametrize("course", ["../x", "A", ["deep"], 7, "x" * 21, "deep\n", None], ids=ascii)
def test_hostile_courses_are_refused_with_a_sentence(course: Any) -> None:
    with pytest.raises(InvalidRequest, match="The 'course' of a run must be the name of a course"):
        Asked.parse({"run": {**RUN, "course": course}})


def test_it_is_nothing_else_at_the_same_time() -> None:
    kernel = {"id": ID, "name": "python3", "course": "deep"}
    for more in ({"course": "deep"}, {"tensorboard": ["~"]}, {"kernel": kernel}):
        with pytest.raises(InvalidRequest):
            Asked.parse({"run": RUN, **more})


def test_its_points_see_what_its_session_sees() -> None:
    session = JupyterLab(space=CourseSpace(name="deep", role=Role.STUDENT, exchange="/x/deep"))
    kind = Run(run=AskedRun(**RUN), space=session.space)
    assert kind.home("ada", "/home/ada") == session.home("ada", "/home/ada")
    script = kind.script_variables("ada", "/home/ada")
    assert script == session.script_variables("ada", "/home/ada")
    variables = kind.variables()
    assert json.loads(variables.pop("PORTAL_RUN"))["folder"] == RUN["folder"]
    assert variables == {**session.variables(), "PORTAL_COURSE_KIND": "run"}
    resumed = kind.model_copy(update={"run": AskedRun(**RUN, resumes=3)})
    assert resumed.script_variables("ada", "/home/ada") == {**script, "PORTAL_RESUMES": "3"}


def test_only_a_course_that_allows_them_has_them() -> None:
    inherited = stored(CLASS, pinned=LAB)
    now = 1_795_000_000.0  # November 2026
    assert closed(Run, inherited, Role.STUDENT, now) == ""
    assert COURSE.runs is False
    without = inherited.model_copy(update={"course": COURSE})
    reason = closed(Run, without, Role.INSTRUCTOR, now)
    assert reason == (
        "The course 'Deep Learning' does not allow runs. Its instructor can allow them in the "
        "course's settings."
    )
    over = inherited.model_copy(update={"state": SpaceState.ARCHIVED})
    assert "is archived" in closed(Run, over, Role.STUDENT, now)
    assert "ended on 1 February 2027" in closed(Run, inherited, Role.STUDENT, now + 1e8)


async def test_it_has_the_course_s_account_and_limits() -> None:
    options = {"environment": "lab", "run": RUN}

    async def decided(**more: Any) -> Any:
        place = await placed({**options, **more})
        asked, defaults = Asked.parse({**options, **more}), Resources(cpus=2)
        kind = place.kind
        return decide(asked, ADA, place.environments, CLUSTER, None, defaults, kind=kind)

    request = await decided()
    resources = request.resources
    assert (resources.account, resources.gpus, resources.cpus) == ("dl101", 0, 1)
    assert str(resources.time) == str(COURSE.default.time)
    assert request.environment.title == "Run rates of Deep Learning: Lab"
    assert request.kind.space.role is Role.STUDENT
    again = request.options()
    assert again["run"] == RUN and "account" not in again and "course" not in again
    assert Asked.parse(again).kind.space_name == "deep"
    for more in ({"gpus": 3}, {"cpus": 5}, {"memory": "9G"}, {"time": "5:00:00"}):
        with pytest.raises(NotAllowed):
            await decided(**more)


async def test_the_site_s_limits_hold_and_the_course_s_environment_stays_pinned() -> None:
    with pytest.raises(NotAllowed, match="Runs are not offered on this site"):
        await placed({"run": RUN}, hub(per_user=0))
    # Whose ``hub`` has no ``pinned``: another version would have none of the course's limits.
    run = {**RUN, "version": 7}
    place = await placed({"environment": "lab", "run": run}, hub(record=run))
    assert place.environments["lab"].default.account == "dl101"


async def test_points_with_gpus_leave_the_partition_of_sessions_on_cpus() -> None:
    default, largest = Resources(partition="cpu"), Resources(gpus=2, partition="gpu")
    course = CLASS.model_copy(update={"default": default, "largest": largest})
    for gpus, partition in ((0, "cpu"), (1, "gpu")):
        place = await placed({"environment": "lab", "gpus": gpus, "run": RUN}, hub(course))
        assert place.environments["lab"].default.partition == partition


SESSION = launched("course-deep", {"course": "deep", "gpus": 1})
KERNEL = launched(
    "kernel-01234567", {"gpus": 1, "kernel": {"id": ID, "name": "x", "course": "deep"}}
)


def test_the_gpus_of_points_that_run_at_once_are_the_member_s() -> None:
    few = a_run("2", run={"points": 1, "at_once": 10})
    launches = [
        a_run("1"),  # two of its eight points at once
        few,
        a_run("3", run={"course": "other"}),
        a_run("4", run={"course": ""}),
        a_run("5", gpus=0),
        SESSION,
    ]
    assert held_gpus(CLASS, launches) == MemberGpus(session=1, runs=3)


@pytest.mark.parametrize(
    ("launches", "gpus"),
    [
        ([a_run("1"), a_run("2", "1")], 2),
        ([a_run("2", "1"), a_run("1", gpus=3)], 6),
        ([a_run("1"), a_run("2", "1"), a_run("3", "1")], 4),
        ([a_run("1"), a_run("2", "9")], 4),
        ([a_run("1", "2"), a_run("2", "1", gpus=2)], 4),  # one of them was started again
    ],
)
def test_a_run_after_another_one_is_not_beside_it(launches: Any, gpus: int) -> None:
    assert held_gpus(CLASS, launches).runs == gpus


@pytest.mark.parametrize(
    ("gpus", "cpus", "launches", "words"),
    [
        (1, 4, [], ""),
        (0, 2, [SESSION, KERNEL], ""),
        (2, 1, [], "2 GPUs at once; 2 points at once need 4. Run fewer at once."),
        (
            1,
            1,
            [SESSION],
            "2 GPUs at once: your session has 1. 2 points at once need 2. Run fewer points at "
            "once or give your session fewer GPUs first.",
        ),
        (
            1,
            1,
            [SESSION, KERNEL, a_run("1", run={"at_once": 1})],
            "your session has 1, your kernels have 1 and your runs have 1. 2 points at once",
        ),
        (0, 3, [], "a member's runs 4 CPUs at once. Those of this run need 6. Run fewer points"),
        (0, 1, [a_run("1", gpus=0, cpus=2)], "need 2, and your other runs have 4."),
        (0, 1, [a_run("1", gpus=1, cpus=2)], ""),
    ],
)
def test_a_member_has_no_more_than_the_course_allows(
    gpus: int, cpus: int, launches: Any, words: str
) -> None:
    reason = too_many_points(CLASS, AskedRun(**RUN), gpus, cpus, launches, 4)
    assert words in reason and bool(words) is bool(reason), reason
    assert not too_many_points(CLASS, AskedRun(**RUN), 0, cpus, launches, None)


def test_a_chain_is_within_the_limit_of_one_run() -> None:
    after = AskedRun(**{**RUN, "after": "1" * 8})
    assert not too_many_points(CLASS, after, 1, 1, [a_run("1")], 4)
    assert too_many_points(CLASS, AskedRun(**RUN), 1, 1, [a_run("1")], 4)


async def test_launches_at_the_same_moment_see_each_other() -> None:
    """Nothing is awaited after the course's check of what the member holds."""
    order: list[str] = []
    at = hub()
    place = at.in_space

    async def in_space(*given: Any) -> Place:
        order.append("course")
        return await place(*given)

    async def slurm_limits() -> SlurmLimits:
        order.append("awaited")
        return SlurmLimits()

    async def home() -> str:
        order.append("awaited")
        return "/home/ada"

    at.in_space, at.slurm_limits, at.home = in_space, slurm_limits, home
    found = await placed({"run": {**RUN, "folder": "~/runs/rates"}}, at)
    assert order == ["awaited", "awaited", "course"]
    assert found.kind.run.folder == "/home/ada/runs/rates"
