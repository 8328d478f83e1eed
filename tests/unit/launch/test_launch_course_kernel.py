"""A kernel in a job of its own, of a course's session: its options, its place, its GPUs."""

from __future__ import annotations

import time
from typing import Any

import pytest
from clusters import ADA, gpu_node, snapshot
from launch_lookup import PlayedLookup
from session_records import launched, owner_of
from stored_courses import a_course, stored

from portal.errors import InvalidRequest, NotAllowed
from portal.launch.course_meeting import at_the_meeting
from portal.launch.course_space import CourseSpace
from portal.launch.kinds.closed import closed
from portal.launch.kinds.jupyterlab import JupyterLab
from portal.launch.kinds.kind import LaunchFacts, OtherLaunch, Place
from portal.launch.policy import decide
from portal.launch.request import Asked
from portal.models.catalog.environment import Environment, EnvironmentKind
from portal.models.cluster.cluster import Partition, Reservation
from portal.models.course.course import Course
from portal.models.session.resources import Resources
from portal.models.space import Role, SpaceState
from portal.spaces.job_space import MINE
from portal.work.course.kind import Preview, Rehearsal, Room
from portal.work.kernel.kind import JobKernel, kernel_environment
from portal.work.member_gpus import MemberGpus, held_gpus, most_gpus, too_many

ID = "5e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162"
SERVER = "kernel-5e2f3c1a0b7d4c8e9a6f"
KERNEL = {"id": ID, "name": "python3", "course": "deep"}
LAB = Environment(
    name="lab",
    title="Lab",
    kind=EnvironmentKind.CONTAINER,
    image="/i/lab.sif",
    kernels=({"name": "python3", "title": "Python 3", "language": "python"},),
    max_time="8:00:00",
)
COURSE = a_course(
    default=Resources(cpus=1, memory="2G", time="2:00:00"),
    largest=Resources(gpus=2, cpus=4, memory="8G", time="4:00:00"),
    account="dl101",
    job_kernels=True,
)
CLUSTER = snapshot(gpu_node("gpu01", "v100", 4)).model_copy(
    update={"partitions": {"gpu": Partition(name="gpu", default=True, nodes=("gpu01",))}}
)


def hub(course: Course = COURSE, others: int = 0, *, gpus: bool = True) -> Any:
    kernels = [OtherLaunch("kernel", "", {})] * others
    return PlayedLookup(LAB, in_course=course, others=kernels, gpus=gpus)


async def placed(options: dict[str, Any], at: Any = None) -> Place:
    asked = Asked.parse(options)
    return await asked.kind.place(asked, at or hub(), LaunchFacts(CLUSTER, None))


def test_its_options_name_the_course() -> None:
    kind = Asked.parse({"gpus": 1, "kernel": KERNEL}).kind
    assert kind == JobKernel(id=ID, kernel="python3", space=CourseSpace(name="deep"))
    assert (kind.space_name, kind.isolated, kind.serves, kind.job_kernels) == (
        ("deep", True, False, False)
    )
    assert Asked.parse({"kernel": {**KERNEL, "course": ""}}).kind.space == MINE
    assert owner_of(SERVER) is JobKernel and kind.at(SERVER, JobKernel) is kind
    for server in ("course-deep", "kernel-12345678", ""):
        with pytest.raises(InvalidRequest, match=f"must have the name '{SERVER}'"):
            kind.at(server, owner_of(server))


@pytest.mark.parametrize("course", ["../x", "A", ["deep"], 7, "x" * 21, "deep\n", {}], ids=ascii)
def test_hostile_courses_are_refused_with_a_sentence(course: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Asked.parse({"kernel": {**KERNEL, "course": course}})
    assert caught.value.field == "kernel" and caught.value.message.endswith(".")


def test_it_is_nothing_else_at_the_same_time() -> None:
    for more in ({"course": "deep"}, {"tensorboard": ["~"]}, {"kind": "marimo"}):
        with pytest.raises(InvalidRequest):
            Asked.parse({"kernel": KERNEL, **more})


def test_it_sees_what_its_session_sees() -> None:
    space = CourseSpace(name="deep", role=Role.STUDENT, exchange="/x/deep")
    session = JupyterLab(space=space)
    kernel = JobKernel(id=ID, kernel="python3", space=space)
    script = kernel.script_variables("ada", "/home/ada")
    assert script == session.script_variables("ada", "/home/ada")
    assert script["PORTAL_COURSE_FOLDER"] == "/home/ada/courses/deep"
    variables = kernel.variables()
    assert '"python3"' in variables.pop("PORTAL_KERNEL")
    assert variables == {**session.variables(), "PORTAL_COURSE_KIND": "kernel"}


def test_other_sessions_of_a_course_have_none() -> None:
    assert JupyterLab.job_kernels
    assert not any(kind.job_kernels for kind in (Room, Rehearsal, Preview, JobKernel))


def test_only_a_course_that_allows_them_has_them() -> None:
    inherited = stored(COURSE, pinned=LAB)
    now = 1_795_000_000.0  # November 2026
    assert closed(JobKernel, inherited, Role.STUDENT, now) == ""
    without = inherited.model_copy(
        update={"course": COURSE.model_copy(update={"job_kernels": False})}
    )
    assert "does not allow kernels" in closed(JobKernel, without, Role.STUDENT, now)
    assert closed(JupyterLab, without, Role.STUDENT, now) == ""
    over = inherited.model_copy(update={"state": SpaceState.ARCHIVED})
    assert "is archived" in closed(JobKernel, over, Role.STUDENT, now)
    bare = COURSE.model_copy(update={"largest": Resources()})
    assert "has no GPUs" in JobKernel.not_offered(bare)
    assert not JobKernel.not_offered(COURSE)


async def test_it_has_the_course_s_account_and_limits() -> None:
    options = {"environment": "lab", "kernel": KERNEL}
    place = await placed(options)
    assert place.environments["lab"].title == "Kernel of Deep Learning: Lab"

    def decided(**more: Any) -> Any:
        asked = Asked.parse({**options, **more})
        offered, defaults = place.environments, Resources(cpus=2)
        return decide(asked, ADA, offered, CLUSTER, None, defaults, kind=place.kind)

    request = decided()
    resources = request.resources
    assert (resources.account, resources.gpus, resources.nodes) == ("dl101", 1, 1)
    assert (resources.cpus, str(resources.time)) == (1, str(COURSE.default.time))
    again = request.options()
    assert again["kernel"] == KERNEL and "account" not in again and "course" not in again
    assert Asked.parse(again).kind.space_name == "deep"
    for more in ({"gpus": 3}, {"cpus": 5}, {"memory": "9G"}, {"time": "5:00:00"}):
        with pytest.raises(NotAllowed):
            decided(**more)


@pytest.mark.parametrize(
    ("default", "largest", "partition"),
    [
        ({}, {"gpus": 1}, None),
        ({"partition": "cpu"}, {"gpus": 1}, None),
        ({"partition": "cpu"}, {"gpus": 1, "partition": "gpu"}, "gpu"),
        ({"gpus": 1, "partition": "gpu"}, {"gpus": 1}, "gpu"),
        ({"gpus": 1, "partition": "gpu"}, {"gpus": 1, "partition": "big"}, "big"),
    ],
)
def test_it_needs_a_partition_with_gpus(
    default: dict[str, Any], largest: dict[str, Any], partition: str | None
) -> None:
    values = {"default": Resources(**default), "largest": Resources(**largest)}
    environment = kernel_environment(LAB, COURSE.model_copy(update=values))
    assert environment.default.partition == partition


async def test_it_has_a_gpu() -> None:
    with pytest.raises(NotAllowed, match="at least one GPU"):
        await placed({"gpus": 0, "kernel": KERNEL})
    with pytest.raises(NotAllowed, match="has no GPUs"):
        await placed({"kernel": KERNEL}, hub(gpus=False))


async def test_the_site_s_limit_and_the_kernelspecs_hold_there_too() -> None:
    with pytest.raises(NotAllowed, match="the limit is 8"):
        await placed({"kernel": KERNEL}, hub(others=8))
    with pytest.raises(NotAllowed, match="has no kernel 'ir'"):
        await placed({"kernel": {**KERNEL, "name": "ir"}})


def test_during_a_meeting_it_runs_in_the_reservation_and_ends_with_it() -> None:
    now = time.time()
    name = time.strftime("course-deep-%Y%m%dT%H%M", time.gmtime(now - 600))
    reservation = Reservation(
        name=name, start_time=now - 600, end_time=now + 1800, users=(ADA.name,), nodes=("gpu01",)
    )
    environment = kernel_environment(LAB, COURSE)

    def meeting(gpus: bool = True, **changes: Any) -> Environment:
        reserved = {name: reservation.model_copy(update=changes)}
        cluster = snapshot(gpu_node("gpu01", "v100", 4), gpu_node("cpu01"))
        cluster = cluster.model_copy(update={"reservations": reserved})
        return at_the_meeting("deep", environment, cluster, ADA, None, now, needs_gpus=gpus)

    inside = meeting()
    assert inside.default.reservation == name and inside.default.gpus == 1
    assert inside.max_time is not None and inside.max_time <= 1800
    assert meeting(users=("grace",)) == environment
    # The sessions are on the reserved CPUs; their kernels with GPUs could not start there.
    beside = meeting(nodes=("cpu01",))
    assert beside.default.reservation is None and beside.max_time == inside.max_time
    assert meeting(gpus=False, nodes=("cpu01",)).default.reservation == name


def test_the_gpus_of_a_member_are_those_of_session_and_kernels() -> None:
    own, personal = {"gpus": 1, "kernel": KERNEL}, {"gpus": 4, "kernel": {"id": ID, "name": "x"}}
    launches = [
        launched("course-deep", {"course": "deep", "gpus": 1}),
        launched(SERVER, own),
        launched("kernel-01234567", personal),
        launched("kernel-76543210", {"gpus": 4, "kernel": {**KERNEL, "course": "other"}}),
        launched("", {"gpus": 2}),
        launched("room-deep", {"course": "deep", "gpus": 2}),
        launched("kernel-11111111", {"gpus": "many", "kernel": "damaged"}),
    ]
    assert held_gpus(COURSE, launches) == MemberGpus(session=1, kernels=1)
    wide = COURSE.model_copy(update={"default": Resources(gpus=1, nodes=2)})
    assert held_gpus(wide, launches[:1]).session == 2 and most_gpus(wide) == 4


@pytest.mark.parametrize(
    ("wanted", "held", "kernel", "words"),
    [
        (2, (0, 0), True, ""),
        (1, (1, 0), True, ""),
        (0, (2, 2), False, ""),
        (3, (0, 0), True, "allows each member 2 GPUs at once, not 3."),
        (2, (1, 0), True, "your session has 1. Give your session fewer GPUs first."),
        (1, (1, 1), True, "your session has 1 and your kernels have 1. Shut down a kernel or give"),
        (1, (0, 2), False, "your kernels have 2. Shut down a kernel first."),
    ],
)
def test_a_member_has_no_more_than_the_course_allows(
    wanted: int, held: tuple[int, int], kernel: bool, words: str
) -> None:
    reason = too_many(COURSE, wanted, MemberGpus(*held), beside=kernel)
    assert words in reason and bool(words) is bool(reason)
