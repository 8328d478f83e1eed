"""Kernels in jobs of their own, on the Hub's side: their jobs, when they are ready, their names."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub import orm
from jupyterhub.app import JupyterHub
from sqlalchemy.orm import Session
from traitlets.config import Config

from portal.gpus.settings import Gpus
from portal.images.settings import Images
from portal.launch.course_space import CourseSpace
from portal.launch.kinds.jupyterlab import JupyterLab
from portal.launch.kinds.kind import OtherLaunch
from portal.launch.request import LaunchRequest
from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import ClusterSnapshot, Job, JobState, Node
from portal.models.session.resources import Resources
from portal.models.space import Role
from portal.setting import SiteSettings
from portal.store.migrations.work import work_and_space
from portal.work.course.kind import Room
from portal.work.kernel.kind import JobKernel
from spawners.config.named_servers import NamedServers
from spawners.form.my_courses import FOR_PAGES
from spawners.launch.other_launches import forget_ended, other_launches
from spawners.launch.submit import submit
from spawners.lifecycle.job_watch import JobWatch
from spawners.lifecycle.progress import Progress
from spawners.session import SessionSpawner
from spawners.spawner import PortalSpawner
from spawners.web import service_address

SERVER = "kernel-5e2f3c1a0b7d4c8e9a6f"
KERNEL = JobKernel(id="5e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162", kernel="python3")


# -- the job ---------------------------------------------------------------------------------------


async def submitted(kind: Any, /, **about: Any) -> tuple[list[str], dict[str, str]]:
    """The argv and the environment that sbatch gets."""
    seen: list[Any] = []

    async def take(argv: list[str], *, env: dict[str, str], user: str) -> str:
        seen[:] = [argv, env]
        return "1"

    async def home() -> str:
        return "/home/ada"

    shared = SimpleNamespace(
        gpus=Gpus(), images=Images(beside="/opt/beside"), cluster=SimpleNamespace(submit=take),
        settings=SiteSettings(Config(JobKernels={"ports": "40000-40999"})),
    )  # fmt: skip
    spawner: Any = SimpleNamespace(
        shared=shared, user=SimpleNamespace(name="ada"), account="ada", name=SERVER, home=home,
        apptainer="/bin/apptainer", container_binds=tuple, binds=[], tensorboard_roots=[],
        tensorboard_memory=1024, cmd=["/opt/site/server"], get_args=lambda: ["--site"],
        get_env=dict, service_url="", telemetry_interval=0, kept_variables=[],
        session_umask="0077", cert_paths=None, log_directory="/log", api_token="", ip="",
        port=0, listen_address="0.0.0.0", welcome_notebook="",
    )  # fmt: skip
    values: dict[str, Any] = {"kind": "container", "image": "/i/c.sif", **about}
    environment = Environment(name="c", title="C", **values)
    request = LaunchRequest(environment=environment, resources=Resources(gpus=1), kind=kind)
    await submit(spawner, request, "log")
    argv, env = seen
    return argv, env


async def test_its_job_runs_the_starter_without_the_servers_arguments() -> None:
    argv, env = await submitted(KERNEL)
    assert argv[-4:] == ["python3", "-I", "-m", "portal_session.job_kernels.starter"]
    assert "--nv" in argv and "--gres=gpu:1" in argv
    assert f"--comment=portal:c:{SERVER}" in argv
    told = json.loads(env["APPTAINERENV_PORTAL_KERNEL"])
    assert told == {"id": KERNEL.id, "name": "python3"}
    argv, env = await submitted(KERNEL, server="beside")
    assert argv[-4:-1] == ["/opt/beside/bin/python3", "-I", "-m"]
    assert env["PORTAL_KIND"] == "beside"
    argv, _ = await submitted(KERNEL, kind="venv", image=None, path="/opt/v")
    assert argv[-4:-1] == ["/opt/v/bin/python3", "-I", "-m"]


async def test_sessions_that_may_have_them_learn_the_ports() -> None:
    _, env = await submitted(JupyterLab())
    assert env["APPTAINERENV_PORTAL_KERNEL_PORTS"] == "40000-40999"
    for kind in (KERNEL, Room(space=CourseSpace(name="dl101", role=Role.INSTRUCTOR))):
        _, env = await submitted(kind)
        assert "APPTAINERENV_PORTAL_KERNEL_PORTS" not in env


async def test_in_a_course_it_sees_the_course_s_folder_and_nothing_else() -> None:
    kernel = KERNEL.model_copy(update={"space": CourseSpace(name="dl101", role=Role.STUDENT)})
    argv, env = await submitted(kernel)
    assert "--containall" in argv and argv[-1] == "portal_session.job_kernels.starter"
    assert env["PORTAL_COURSE_FOLDER"] == "/home/ada/courses/dl101"
    assert env["PORTAL_COURSE_HOME"] == "/home/ada"
    assert env["APPTAINERENV_PORTAL_COURSE"] == "dl101"
    assert json.loads(env["APPTAINERENV_PORTAL_KERNEL"])["id"] == KERNEL.id


# -- its start -------------------------------------------------------------------------------------


class Slurm:
    """A watcher with one job of ada's, which counts the queries."""

    def __init__(self) -> None:
        self.asked = 0
        self.last: ClusterSnapshot | None = None
        self.job = Job(id="7", user="ada", state=JobState.PENDING)

    def run(self) -> None:
        self.job = self.job.model_copy(update={"state": JobState.RUNNING, "nodes": ("gpu01",)})

    async def snapshot(self, newer_than: float = 0, **_: Any) -> ClusterSnapshot:
        await asyncio.sleep(0)
        self.asked += 1
        self.last = ClusterSnapshot(
            taken_at=time.time(),
            asked_at=time.monotonic(),
            jobs={"7": self.job},
            nodes={"gpu01": Node(name="gpu01", address="10.0.0.9", state="IDLE")},
        )
        return self.last

    def position(self, job: Job, snapshot: ClusterSnapshot) -> int | None:
        return None


class Spawner:
    """As much of PortalSpawner as the wait for a kernel's job needs."""

    trace = None
    wait_for_server = PortalSpawner.wait_for_server
    get_url = PortalSpawner.get_url
    _see = PortalSpawner._see
    _found = SessionSpawner._found
    url_at = PortalSpawner.url_at
    serves = PortalSpawner.serves
    kind = PortalSpawner.kind
    trace = None

    def __init__(self, slurm: Slurm, name: str = SERVER) -> None:
        self.name, self.server_address, self.posted_port = name, "", 0
        self.work, self.space = work_and_space(name, {})
        self.ip, self.port, self.internal_ssl, self._ready = "", 0, False, False
        self._port_posted = asyncio.Event()
        self.watch_interval, self.server_timeout = 0.05, 5.0
        self.progress_state, self.given = Progress(), []
        self.history = SimpleNamespace(
            running=lambda job: self.given.append("runs"),
            ready=lambda job: self.given.append("ready"),
        )
        self.log, self._log_name = logging.getLogger("test"), "ada"
        self.watch = JobWatch(slurm, "7", "ada", self.log)  # type: ignore[arg-type]
        self.job = self.watch.job


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Hub that knows the portal's service."""
    server = SimpleNamespace(host="http://127.0.0.1:8010")
    known = SimpleNamespace(_service_map={"portal": SimpleNamespace(server=server)})
    monkeypatch.setattr(JupyterHub, "initialized", classmethod(lambda _: True))
    monkeypatch.setattr(JupyterHub, "instance", classmethod(lambda _: known))


async def test_it_is_ready_when_its_job_runs(hub: None) -> None:
    slurm = Slurm()
    spawner = Spawner(slurm)
    waits = asyncio.ensure_future(spawner.wait_for_server())  # type: ignore[arg-type]
    await asyncio.sleep(0.3)
    assert not waits.done() and slurm.asked < 10, "as rarely as other sessions that wait"
    slurm.run()
    assert await asyncio.wait_for(waits, 5) == "http://127.0.0.1:8010"
    assert set(spawner.given) == {"runs"} and spawner._ready
    assert (spawner.ip, spawner.port) == ("", 0), "nothing leads to its node"


async def test_another_session_waits_for_its_port(hub: None) -> None:
    slurm = Slurm()
    slurm.run()
    spawner = Spawner(slurm, "second")
    waits = asyncio.ensure_future(spawner.wait_for_server())  # type: ignore[arg-type]
    await asyncio.sleep(0.2)
    assert not waits.done()
    spawner.posted_port = 5000
    spawner._port_posted.set()
    assert await asyncio.wait_for(waits, 5) == "http://10.0.0.9:5000"


async def test_a_restarted_hub_gives_the_same_address(hub: None) -> None:
    spawner = Spawner(Slurm())
    spawner.server_address = "10.0.0.9"
    assert await spawner.get_url() == "http://127.0.0.1:8010"  # type: ignore[arg-type]
    slurm = Slurm()
    slurm.run()
    assert await Spawner(slurm).get_url() == "http://127.0.0.1:8010"  # type: ignore[arg-type]


def test_without_a_service_it_leads_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JupyterHub, "initialized", classmethod(lambda _: False))
    assert service_address.no_page() == "http://127.0.0.1:9"
    known = SimpleNamespace(_service_map={"portal": SimpleNamespace(server=None)})
    monkeypatch.setattr(JupyterHub, "initialized", classmethod(lambda _: True))
    monkeypatch.setattr(JupyterHub, "instance", classmethod(lambda _: known))
    assert service_address.no_page() == "http://127.0.0.1:9"


# -- names -----------------------------------------------------------------------------------------


@pytest.fixture
def db() -> Iterator[Session]:
    session = orm.new_session_factory("sqlite://")()
    session.add(orm.User(name="ada"))
    session.commit()
    yield session
    session.close()


class User:
    """As much of JupyterHub's User as its servers need."""

    def __init__(self, db: Session, **spawners: Any) -> None:
        self.db, self.orm_user = db, db.query(orm.User).one()
        self.spawners = {name.replace("_", "-"): value for name, value in spawners.items()}
        for name, spawner in self.spawners.items():
            spawner.name = name
            spawner.work, spawner.space = work_and_space(name, spawner.last_options)

    @property
    def orm_spawners(self) -> dict[str, Any]:
        return dict(self.orm_user.orm_spawners)

    def add_spawner(self, name: str, server: orm.Server | None = None) -> None:
        self.db.add(orm.Spawner(name=name, user=self.orm_user, server=server))
        self.db.commit()


def a_spawner(active: bool = True, options: Any = None, failed: bool = False) -> Any:
    return SimpleNamespace(active=active, last_options=options or {}, _failed=failed, job_id="")


def test_kernels_that_are_over_leave_no_server(db: Session) -> None:
    user = User(
        db,
        kernel_00000001=a_spawner(),  # waits
        kernel_00000002=a_spawner(active=False, failed=True),
        kernel_00000004=a_spawner(active=False),  # is about to be launched
        second=a_spawner(active=False),
    )
    for name in ("", "second", "course-deep", SERVER, *user.spawners):
        if name not in user.orm_spawners:
            user.add_spawner(name)
    user.add_spawner("kernel-00000003", orm.Server(base_url="/user/ada/kernel-00000003/"))
    forget_ended(user)
    assert set(user.orm_spawners) == {
        "", "second", "course-deep", "kernel-00000001", "kernel-00000003", "kernel-00000004",
    }  # fmt: skip
    assert set(user.spawners) == {"kernel-00000001", "kernel-00000004", "second"}
    forget_ended(user)
    assert len(user.orm_spawners) == 6


def test_kernels_that_count(db: Session) -> None:
    mine, checked = a_spawner(), {"environment": "lab"}
    user = User(
        db,
        kernel_00000001=a_spawner(options=checked),
        kernel_00000002=a_spawner(),  # its launch is being checked, too
        kernel_00000003=a_spawner(active=False, options=checked),
        second=a_spawner(options=checked),
        kernel_00000004=mine,
    )
    mine.user, mine.last_options = user, checked
    counted = [other for other in other_launches(mine) if other.work == "kernel"]
    assert counted == [OtherLaunch("kernel", "", checked)]


def test_a_session_that_moves_counts_with_the_larger_resources(db: Session) -> None:
    few, many = {"environment": "lab", "gpus": 0}, {"environment": "lab", "gpus": 2}
    mine, session = a_spawner(), a_spawner(options=few)
    mine.user = User(db, course_deep=session, kernel_00000001=a_spawner(options=many), me=mine)
    kernel = OtherLaunch("kernel", "", many)
    assert other_launches(mine) == [OtherLaunch("jupyterlab", "deep", few), kernel]
    for live, expected in ((True, many), (False, few)):
        successor = SimpleNamespace(options=many)
        session.moving = SimpleNamespace(live=live, current=successor)
        assert other_launches(mine)[0].options == expected


def test_the_job_of_another_run_of_the_same_user(db: Session) -> None:
    run = {"id": "5e2f3c1a", "name": "r", "source": "r.py", "folder": "/r", "points": 1}
    first, second = a_spawner(options={"run": run}), a_spawner(options={"run": run})
    first.job_id, second.job_id = "77", "78"
    later = {**run, "id": "6e2f3c1a"}
    submitted = a_spawner(options={"run": later})
    submitted.job_id = ""
    mine = a_spawner()
    mine.user = User(db, run_5e2f3c1a=first, run_6e2f3c1a=submitted, second=second, me=mine)
    runs = [other for other in other_launches(mine) if other.work == "run"]
    assert [(other.options["run"]["id"], other.job_id) for other in runs] == [
        ("5e2f3c1a", "77"),
        ("6e2f3c1a", ""),
    ]
    first.active = False
    assert [other.job_id for other in other_launches(mine) if other.work == "run"] == [""]


def test_they_are_no_named_servers() -> None:
    limit = NamedServers(2)
    servers = dict.fromkeys(["", "second", "course-dl101", SERVER])
    user = SimpleNamespace(orm_spawners=servers)
    handler: Any = SimpleNamespace(path_args=["ada", "third"], find_user=lambda name: user)
    assert limit(handler) == 4  # JupyterHub counts three: one is free
    handler.path_args = ["ada", SERVER]
    assert limit(handler) == 0  # no limit
    assert FOR_PAGES.has(SERVER).kind is JobKernel and FOR_PAGES.has("kernel-mine") is None
