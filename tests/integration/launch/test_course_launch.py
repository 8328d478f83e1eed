"""A session of a course: its server's name, when it may start, and how large it may be."""

from __future__ import annotations

import os
import subprocess
import time
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from session_records import owner_of
from stored_courses import a_course, stored

from portal.errors import InvalidRequest, NotAllowed
from portal.launch.container import session_command
from portal.launch.course import (
    CourseKind,
    course_kind,
    course_named,
    meeting,
    parsed_server,
    unfit,
)
from portal.launch.course_space import CourseSpace, purpose_of
from portal.launch.in_space import check_asked
from portal.launch.kinds import KINDS
from portal.launch.kinds.closed import closed
from portal.launch.kinds.jupyterlab import JupyterLab
from portal.launch.limits.limits import environment_limits, within
from portal.launch.request import Asked, LaunchRequest
from portal.models.catalog.environment import Bind, Environment, EnvironmentKind, Server
from portal.models.cluster.cluster import ClusterSnapshot, Reservation
from portal.models.course.course import CourseReservation, SingleTime, StoredCourse
from portal.models.session.resources import Duration, Resources
from portal.models.space import Role
from portal.spaces.limits import narrowed, until
from portal.work.course.kind import Preview, Rehearsal
from spawners.config.named_servers import NamedServers
from spawners.launch.courses import CourseLaunch

LAB = Environment(
    name="lab",
    title="Lab",
    kind=EnvironmentKind.CONTAINER,
    image="/i/lab.sif",
    gpu_types=("t4", "v100"),
    max_time="8:00:00",
    default=Resources(gpus=2, gpu_type="v100", memory="64G", qos="high", account="ml"),
    binds=(Bind(source="/etc/pip.conf"), Bind(source="/scratch", read_only=False)),
)
COURSE = a_course(
    "dl101",
    title="Deep Learning 101",
    default=Resources(cpus=1, memory="2G", time="2:00:00"),
    largest=Resources(gpus=1, cpus=4, memory="8G", time="4:00:00"),
    account="dl101",
    timezone="Europe/Berlin",
)
STUDENT = JupyterLab(space=CourseSpace(name="dl101", title=COURSE.title, role=Role.STUDENT))


def dl101(**changes: Any) -> StoredCourse:
    return stored(**{"course": COURSE, "pinned": LAB, **changes})


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo("Europe/Berlin")).timestamp()


@pytest.mark.parametrize("course", ["dl101", "a-b"])
@pytest.mark.parametrize("kind", ["course", "rehearsal", "preview", "room"])
def test_a_courses_server_is_known_by_its_name(course: str, kind: str) -> None:
    server = f"{kind}-{course}"
    assert parsed_server(server) == (course, kind)
    assert course_kind(course, server) == kind
    with pytest.raises(InvalidRequest, match=f"reserved for a session of the course '{course}'"):
        course_kind("", server)


@pytest.mark.parametrize("server", ["", "second", "course", "course-", "course-A", "lecture-x"])
def test_other_names_are_the_persons_own(server: str) -> None:
    assert parsed_server(server) is None
    assert course_kind("", server) is None
    with pytest.raises(InvalidRequest, match="must have the name 'course-dl101'"):
        course_kind("dl101", server)


def test_the_name_and_the_option_must_be_of_one_course() -> None:
    with pytest.raises(InvalidRequest):
        course_kind("dl101", "course-ml")
    asked = Asked.parse({"course": "dl101", "gpus": 1})
    assert (asked.kind.space_name, asked.given()) == ("dl101", {"gpus": 1})
    assert Asked.parse({"gpus": 1, "course": ""}).kind.space_name == ""
    for wrong in ("a/b", "../x", "A", "-a", "a-", "a--b", "x" * 21, "dl101\n", 1, ["dl101"]):
        with pytest.raises(InvalidRequest, match="'course' must be"):
            course_named(wrong)
        with pytest.raises(InvalidRequest, match="'course' must be"):
            Asked.parse({"course": wrong})


def test_every_kind_of_server_of_the_longest_name_is_one_for_jupyterhub() -> None:
    from jupyterhub.slugs import is_valid_safe_slug

    for name in ("x" * 20, "0-0", "1"):
        assert course_named(name) == name
        assert all(is_valid_safe_slug(f"{kind}-{name}") for kind in CourseKind)


@pytest.mark.parametrize(
    ("changes", "kind", "role", "now", "words"),
    [
        ({}, "course", "student", "2026-10-01T00:00", ""),
        ({}, "course", "student", "2027-02-01T23:59", ""),
        ({}, "course", "student", "2026-09-30T23:59", "begins on 1 October 2026."),
        ({}, "course", "instructor", "2026-09-30T23:59", ""),
        ({}, "preview", "assistant", "2026-09-01T00:00", ""),
        ({}, "rehearsal", "student", "2026-09-01T00:00", ""),
        ({}, "course", "student", "2027-02-02T00:00", "ended on 1 February 2027."),
        ({}, "rehearsal", "instructor", "2027-02-02T00:00", "ended on"),
        ({}, "room", "instructor", "2026-12-01T00:00", "no room"),
        ({"state": "draft"}, "course", "instructor", "2026-12-01T00:00", "must approve it first"),
        ({"state": "requested"}, "course", "student", "2026-12-01T00:00", "must approve it first"),
        ({"state": "refused"}, "course", "student", "2026-12-01T00:00", "was not approved"),
        ({"state": "archived"}, "course", "student", "2026-12-01T00:00", "is archived"),
        ({"pinned": None}, "course", "student", "2026-12-01T00:00", "no environment yet"),
    ],
)
def test_when_a_course_has_sessions(
    changes: dict[str, Any], kind: str, role: str, now: str, words: str
) -> None:
    found = owner_of(f"{kind}-dl101")
    assert found is not None and issubclass(found, JupyterLab) and purpose_of(found.name) == kind
    said = closed(found, dl101(**changes), Role(role), at(now))
    assert words in said
    assert bool(said) == bool(words)


def test_only_a_container_with_its_server_inside_is_fit() -> None:
    assert unfit(LAB) == ""
    venv = Environment(name="v", title="V", kind=EnvironmentKind.VENV, path="/v")
    assert "is not a container" in unfit(venv)
    assert "outside its container" in unfit(LAB.model_copy(update={"server": Server.BESIDE}))


def test_the_courses_limits_are_the_sessions() -> None:
    offered = narrowed(LAB, COURSE)
    assert offered.default == Resources(
        cpus=1, memory="2G", time="2:00:00", qos="high", account="dl101"
    )
    assert (offered.max_gpus, offered.max_cpus) == (1, 4)
    assert (offered.max_memory, offered.max_time) == (8192, 4 * 3600)
    assert offered.fingerprint == LAB.fingerprint
    said = environment_limits(Resources(gpus=2, cpus=8, memory="9G", time="5:00:00"), offered)
    assert len(said) == 4
    assert all("'Deep Learning 101: Lab' allows " in one for one in said)
    # What the environment allows is never exceeded.
    tight = LAB.model_copy(update={"max_gpus": 0, "max_time": Duration(3600)})
    offered = narrowed(tight, COURSE)
    assert (offered.max_gpus, offered.max_time) == (0, 3600)
    assert within(offered, offered.default.given())["time"] == 3600


def test_a_course_has_no_other_gpus_than_its_own() -> None:
    course = COURSE.model_copy(
        update={"default": Resources(gpus=1), "largest": Resources(gpus=2, gpu_type="t4")}
    )
    offered = narrowed(LAB, course)
    assert (offered.gpu_types, offered.max_gpus) == (("t4",), 2)
    assert (offered.default.gpus, offered.default.gpu_type) == (1, None)  # the v100 is left out
    a100 = course.model_copy(update={"largest": Resources(gpus=2, gpu_type="a100")})
    assert narrowed(LAB, a100).max_gpus == 0
    spent = narrowed(LAB, course, gpus=False)
    assert (spent.max_gpus, spent.default.gpus) == (0, 0)


def test_what_a_member_chooses() -> None:
    chosen = {"gpus": 1, "cpus": 2, "memory": "4G", "time": "1:00:00", "environment": "lab"}

    def check(options: dict[str, Any]) -> None:
        check_asked(Asked.parse(options).given(), LAB, COURSE)

    check(chosen)
    check({"account": "", "qos": None})
    for key in ("account", "qos", "partition", "reservation", "nodes"):
        with pytest.raises(InvalidRequest, match=f"The course sets '{key}'"):
            check({key: 2 if key == "nodes" else "x"})
    with pytest.raises(NotAllowed, match="uses 'Lab', not 'other'"):
        check({"environment": "other"})


def test_the_same_again_is_only_what_a_member_chooses() -> None:
    resources = Resources(
        gpus=1, cpus=2, memory="4G", time="1:00:00", account="dl101", reservation="r", partition="p"
    )
    again = LaunchRequest(environment=LAB, resources=resources, kind=STUDENT).options()
    assert again == {
        "course": "dl101",
        "environment": "lab",
        "gpus": 1,
        "cpus": 2,
        "memory": "4G",
        "time": "1:00:00",
    }
    check_asked(Asked.parse(again).given(), LAB, COURSE)


def test_the_reservation_of_the_meeting_that_is_on() -> None:
    def one(name: str, start: float, end: float) -> Reservation:
        return Reservation(name=name, start_time=start, end_time=end)

    there = [
        one("course-dl101-20261123T0800", 100, 200),
        one("course-dl101-20261125T0800", 200, 300),
        one("course-dl101-extra", 0, 1000),
        one("course-dl101-b-20261123T0800", 100, 200),
        one("exam", 0, 1000),
    ]
    found = meeting("dl101", {r.name: r for r in there}, 150)
    assert [r.name for r in found] == ["course-dl101-20261123T0800"]
    assert meeting("dl101", {r.name: r for r in there}, 99) == []
    assert str(until(LAB, 3725).max_time) == "1:02:00"
    assert str(until(LAB, 1).max_time) == "0:01:00"
    assert str(until(LAB, 10**6).max_time) == "8:00:00"


@pytest.mark.parametrize(
    ("nodes", "begins", "known", "asks"),
    [(1, 0, False, 1), (1, 0, True, 0), (1, 3600, False, 0), (0, 0, False, 0)],
    ids=["new", "known", "not on", "reserves nothing"],
)
async def test_slurm_is_asked_again_for_the_reservation_of_a_meeting_that_is_on(
    nodes: int, begins: int, known: bool, asks: int
) -> None:
    now, asked = time.time(), []
    first = datetime.fromtimestamp(now + begins - 60, ZoneInfo("UTC"))
    name = f"course-dl101-{first:%Y%m%dT%H%M}"
    fresh = {name: Reservation(name=name, start_time=now - 60, end_time=now + 600)}

    async def reservations(newer_than: float) -> dict[str, Reservation]:
        asked.append(newer_than)
        return fresh

    cluster = SimpleNamespace(reservations=reservations)
    spawner: Any = SimpleNamespace(shared=SimpleNamespace(cluster=cluster))
    course = COURSE.model_copy(
        update={
            "timezone": "UTC",
            "begins": first.date(),
            "ends": first.date() + timedelta(days=1),
            "single": (SingleTime(date=first.date(), begins=f"{first:%H:%M}", minutes=30),),
            "reservation": CourseReservation(nodes=nodes),
        }
    )
    snapshot = ClusterSnapshot(taken_at=now, reservations=fresh if known else {})
    kept = stored(course)
    found = await CourseLaunch(spawner, kept, Role.STUDENT).snapshot(snapshot)
    assert len(asked) == asks and (found.reservations == fresh) == (known or bool(asks))
    uptime = time.monotonic()
    assert all(uptime - 5 < one <= uptime for one in asked)


def test_its_container_sees_nothing_of_the_node() -> None:
    alone = LAB.model_copy(update={"binds": LAB.binds[:1]})
    argv = session_command(
        alone,
        Resources(gpus=1),
        home=STUDENT.home("ada", "/homes/ada"),
        apptainer="apptainer",
        binds=(Bind(source="/projects"),),
        isolated=STUDENT.isolated,
    )
    options = argv[: argv.index("/i/lab.sif")]
    assert {"--containall", "--cleanenv", "--no-eval", "--nv"} <= set(options)
    assert options[options.index("--no-mount") + 1] == "cwd,hostfs"
    assert options[options.index("--pwd") + 1] == "/home/ada"
    assert [word for word in options if ":" in word] == ["/etc/pip.conf:/etc/pip.conf:ro"]
    assert argv[-4:] == ["python3", "-I", "-m", "portal_session"]


def test_the_course_s_data_are_where_the_site_said(tmp_path: Path) -> None:
    """The staff writes there: a link would show them all files of a student whom they help."""
    root = tmp_path / "root"
    (root / "dl101/images").mkdir(parents=True)
    (tmp_path / "alias").symlink_to(root)  # the site's own links are fine
    (root / "sly").symlink_to("/home")
    (root / "dl101/sly").symlink_to(root / "dl101/images")
    script = Path(__file__).parents[3] / "deploy/session.sh"

    def started(data: str) -> subprocess.CompletedProcess[str]:
        place = {"data": f"{tmp_path}/alias/{data}", "data_root": f"{tmp_path}/alias"}
        course = JupyterLab(space=CourseSpace(name="dl101", role=Role.STUDENT, **place))
        told = course.script_variables("ada", str(tmp_path / "ada"))
        (tmp_path / "ada/courses").mkdir(parents=True, exist_ok=True)
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SLURM_JOB_ID": "1"}
        return subprocess.run(
            ["bash", script, "echo", "started"],
            env={**env, "PORTAL_KIND": "container", "TMPDIR": str(tmp_path), **told},
            capture_output=True,
            text=True,
            check=False,
        )

    for good in ("dl101/images", "dl101//images/", "dl101", ""):
        assert started(good).stdout == "started\n", good
    for bad in ("sly", "sly/ada", "dl101/sly", "nothing"):
        done = started(bad)
        assert done.returncode == 74 and "lead elsewhere" in done.stderr and not done.stdout
    assert not list(tmp_path.glob("portal-course-*"))


def _course_session(
    tmp_path: Path, *command: str, path: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", Path(__file__).parents[3] / "deploy/session.sh", *command],
        env={
            **STUDENT.script_variables("ada", str(tmp_path / "ada")),
            "PATH": f"{path}{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "TMPDIR": str(tmp_path),
            "SLURM_JOB_ID": "8",
            "APPTAINERENV_JUPYTERHUB_API_URL": "http://hub:1/api",
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("there", [False, True])
def test_what_a_session_has_on_the_node_is_its_owner_s_alone(tmp_path: Path, there: bool) -> None:
    folder = tmp_path / "ada/courses/dl101"
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    if not there:  # nor the folder of courses
        folder.rmdir()
        folder.parent.rmdir()
    show = 'stat --format=%a "$APPTAINER_WORKDIR"{,/tmp,/var_tmp} "${APPTAINER_HOME%%:*}"'
    done = _course_session(tmp_path, "bash", "-c", show)
    assert done.stdout.split() == ["700"] * 4, done.stderr
    assert not list(tmp_path.glob("portal-course-*"))


@pytest.mark.parametrize("link", ["ada/courses/dl101", "ada/courses"])
def test_a_courses_folder_that_leads_elsewhere_is_not_taken(tmp_path: Path, link: str) -> None:
    other = tmp_path / "other"
    other.mkdir(mode=0o755)
    (tmp_path / link).parent.mkdir(parents=True)
    (tmp_path / link).symlink_to(other)
    done = _course_session(tmp_path, "echo", "started")
    assert (done.returncode, done.stdout) == (74, "")
    assert "leads elsewhere" in done.stderr
    assert other.stat().st_mode & 0o777 == 0o755
    assert not list(tmp_path.glob("portal-course-*"))


def test_a_temporary_folder_that_somebody_else_made_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "mine").mkdir()
    install = tmp_path / "bin/install"  # as if it had been there a moment before
    install.write_text(
        f"#!/bin/sh\nfor one; do case $one in */portal-course-*/*) ;; */portal-course-*) "
        f'ln -s {tmp_path}/mine "$one" ;; esac; done\nexec /usr/bin/install "$@"\n'
    )
    install.chmod(0o755)
    done = _course_session(tmp_path, "echo", "started", path=f"{tmp_path}/bin:")
    assert (done.returncode, done.stdout) == (74, "")
    assert "belongs to another account" in done.stderr


def test_what_a_session_left_on_the_node_goes_and_another_hub_s_stays(tmp_path: Path) -> None:
    """Slurm here does not know the jobs of another cluster's Hub; they run all the same."""
    squeue = tmp_path / "squeue"
    squeue.write_text("#!/bin/sh\ncase $2 in --job=7) echo 7 ;; esac\n")
    squeue.chmod(0o755)
    place = f"portal-course-{os.geteuid()}"
    mine, running, other = (
        tmp_path / name
        for name in (
            f"{place}-httphub1api-6.1",
            f"{place}-httphub1api-7.1",
            f"{place}-httphub2api-6.1",
        )
    )
    for one in (mine, running, other):
        one.mkdir()
    done = _course_session(tmp_path, "echo", "started", path=f"{tmp_path}:")
    assert done.stdout == "started\n", done.stderr
    assert [one.exists() for one in (mine, running, other)] == [False, True, True]
    assert len(list(tmp_path.glob("portal-course-*"))) == 2  # its own is gone, too


def test_what_the_job_script_and_the_session_are_told() -> None:
    assert STUDENT.script_variables("ada", "/homes/ada") == {
        "PORTAL_COURSE_HOME": "/home/ada",
        "PORTAL_COURSE_FOLDER": "/homes/ada/courses/dl101",
    }
    rehearsal = Rehearsal(space=STUDENT.space)
    for one in (rehearsal, Preview(space=STUDENT.space)):
        assert "PORTAL_COURSE_FOLDER" not in one.script_variables("ada", "/homes/ada")
    own = KINDS[0]()
    assert own.script_variables("ada", "/homes/ada") == own.variables() == {}
    assert own.home("ada", "/homes/ada") == "/homes/ada"
    assert rehearsal.variables() == {
        "PORTAL_COURSE": "dl101",
        "PORTAL_COURSE_KIND": "rehearsal",
        "PORTAL_COURSE_ROLE": "student",
    }


class _Handler:
    """A request for ``path_args``, of somebody who has ``servers``."""

    def __init__(self, path_args: list[str], servers: list[str]) -> None:
        self.path_args, self.servers = path_args, servers

    def find_user(self, name: str) -> Any:
        handler = self

        class User:
            orm_spawners = dict.fromkeys(handler.servers)

        return User() if name == "ada" else None


def test_sessions_of_courses_do_not_count_as_named_servers() -> None:
    limit = NamedServers(2)
    mine = ["", "second", "course-dl101", "room-dl101"]
    assert limit(_Handler(["ada", "third"], mine)) == 4  # JupyterHub counts three: one is free
    assert limit(_Handler(["ada", "course-ml"], mine)) == 0  # no limit
    assert limit(_Handler(["nobody", "third"], mine)) == 2
    assert limit(_Handler([], mine)) == 2
    assert NamedServers(0)(_Handler(["ada", "third"], mine)) == 0
