"""A course's exchange (spawners/launch/course_exchange.py) with nbgrader's own commands, each run
by another account of the machine, with the settings that sessions have
(portal_session/course/grades.py)."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from portal_session.course import grades
from session_server import KERNELS, SessionServer, a_server, make_python

from portal.launch.container import session_command
from portal.launch.course_space import EXCHANGE, CourseSpace
from portal.launch.kinds.jupyterlab import JupyterLab
from portal.models.catalog.environment import Environment, EnvironmentKind
from portal.models.session.resources import Resources
from portal.models.space import Role
from spawners.launch.course_exchange import exchange_of

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs commands as others")
# Accounts that every Debian has, for people.
BARBARA, STUDENT01, STUDENT02 = "daemon", "bin", "games"


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that everyone may enter."""
    with tempfile.TemporaryDirectory(prefix="portal-grades-", dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


class Someone:
    """An account with a home below ``place``, in a session of a course."""

    def __init__(self, account: str, role: Role, place: Path, course: str, exchange: str) -> None:
        self.account = account
        self.home = place / f"{account}-{course}"
        self.home.mkdir(mode=0o700)
        os.chown(self.home, pwd.getpwnam(account).pw_uid, -1)
        session = JupyterLab(space=CourseSpace(name=course, role=role, exchange=exchange))
        self.env = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.home),
            "PYTHONDONTWRITEBYTECODE": "1",
            **session.variables(),
            "PORTAL_COURSE_EXCHANGE": exchange,  # there is no container that has it at EXCHANGE
        }
        grades.set_settings(self.env)

    def run(self, *argv: str | Path) -> subprocess.CompletedProcess[str]:
        ids = pwd.getpwnam(self.account)
        return subprocess.run(
            [str(one) for one in argv], cwd=self.home, env=self.env, capture_output=True,
            text=True, check=False, timeout=120, umask=0o022,
            user=ids.pw_uid, group=ids.pw_gid, extra_groups=[],
        )  # fmt: skip

    def nbgrader(self, *words: str) -> str:
        done = self.run(sys.executable, "-m", "nbgrader", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr


@needs_root
async def test_release_fetch_submit_collect(place: Path) -> None:
    for account in (BARBARA, STUDENT01, STUDENT02):
        exchange = await exchange_of(str(place / "exchange"), "deep", account)
    barbara = Someone(BARBARA, Role.INSTRUCTOR, place, "deep", exchange)
    one = Someone(STUDENT01, Role.STUDENT, place, "deep", exchange)
    two = Someone(STUDENT02, Role.STUDENT, place, "deep", exchange)
    work = barbara.home / "release/ps1"
    work.mkdir(parents=True)
    (work / "task.ipynb").write_text(
        json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    )
    barbara.nbgrader("release_assignment", "ps1")
    one.nbgrader("fetch_assignment", "ps1")
    assert (one.home / "ps1/task.ipynb").exists()
    (one.home / "ps1/mine.txt").write_text("the answer")
    one.nbgrader("submit", "ps1")
    # Another student puts work there, too, and cannot see what there is: the names of submissions
    # end in twelve random characters, so what cannot be listed cannot be reached.
    inbound = Path(exchange) / "deep/inbound"
    (submission,) = inbound.iterdir()
    assert submission.name.startswith(f"{STUDENT01}+ps1+") and len(submission.name) > 40
    assert two.run("ls", inbound).returncode != 0
    assert two.run("sh", "-c", f"cat {inbound}/*/mine.txt").returncode != 0
    assert two.run("touch", Path(exchange) / "deep/outbound/ps1/task.ipynb").returncode != 0
    said = barbara.nbgrader("collect", "ps1")
    assert "1 submission" in said or (barbara.home / f"submitted/{STUDENT01}/ps1").exists(), said
    assert (barbara.home / f"submitted/{STUDENT01}/ps1/mine.txt").read_text() == "the answer"
    assert two.run("cat", barbara.home / f"submitted/{STUDENT01}/ps1/mine.txt").returncode != 0


@needs_root
async def test_the_next_course_needs_nothing_but_its_name(place: Path) -> None:
    directory = place / "exchange"
    first = await exchange_of(str(directory), "deep", STUDENT01)
    second = await exchange_of(str(directory), "other", BARBARA)
    again = await asyncio.gather(*(exchange_of(str(directory), "deep", BARBARA) for _ in range(5)))
    assert first != second and set(again) == {first}
    assert {one.name for one in directory.iterdir()} == {"deep", "other"}
    # Who is in neither course gets into neither; see tests/attacks/test_exchange_of_others.py.
    eve = Someone(STUDENT02, Role.STUDENT, place, "nothing", str(place))
    assert eve.run("ls", directory).returncode != 0
    barbara = Someone(BARBARA, Role.INSTRUCTOR, place, "other", second)
    (barbara.home / "release/ps9").mkdir(parents=True)
    barbara.nbgrader("release_assignment", "ps9")
    assert (Path(second) / "other/outbound/ps9").is_dir()


async def test_without_a_place_there_are_no_grades(place: Path) -> None:
    assert await exchange_of("", "deep", BARBARA) == ""
    session = JupyterLab(space=CourseSpace(name="deep", role=Role.STUDENT))
    assert "PORTAL_COURSE_EXCHANGE" not in session.variables()
    env: dict[str, str] = dict(session.variables())
    grades.set_settings(env)
    assert "JUPYTER_CONFIG_PATH" not in env


def test_the_sessions_of_the_course_have_its_exchange_and_no_others() -> None:
    """By the environment: the command is the same for everyone in the course."""
    environment = Environment(
        name="lab", title="Lab", kind=EnvironmentKind.CONTAINER, image="/i/lab.sif"
    )

    def told(exchange: str | None) -> tuple[list[str], dict[str, str]]:
        session = JupyterLab(space=CourseSpace(name="deep", role=Role.STUDENT, exchange=exchange))
        command = session_command(
            environment, Resources(), home="/home/ada", apptainer="apptainer", isolated=True
        )
        return command, session.script_variables("ada", "/homes/ada")

    command, env = told("/x/deep")
    assert env["PORTAL_COURSE_BIND"] == f"/x/deep:{EXCHANGE}"
    assert not [word for word in command if "/x/deep" in word or EXCHANGE in word]
    assert "PORTAL_COURSE_BIND" not in told(None)[1]


# -- in JupyterLab --------------------------------------------------------------------------------

_NBGRADER = "@jupyter/nbgrader"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with nbgrader, which switches itself on in all of its files."""
    root = tmp_path_factory.mktemp("grades")
    made = make_python(root)
    for name in (f"labextensions/{_NBGRADER}", "nbconvert"):
        shutil.copytree(f"{sys.prefix}/share/jupyter/{name}", root / "share/jupyter" / name)
    for name in ("nbgrader", "jupyter_server_terminals"):
        file = f"etc/jupyter/jupyter_server_config.d/{name}.json"
        shutil.copy(f"{sys.prefix}/{file}", root / file)
    page = root / "etc/jupyter/labconfig/page_config.d/portal_session.json"
    page.parent.mkdir(parents=True)
    shutil.copy(KERNELS / "config/page_config.json", page)
    return made


def has(server: SessionServer) -> dict[str, bool]:
    """Which of nbgrader's parts a session has, in its server and in its page."""
    ways = {"list": "assignments", "courses": "formgraders", "formgrader": "formgrader"}
    html = server.client.get("lab").text
    text = html.partition('<script id="jupyter-config-data" type="application/json">')[2]
    page = json.loads(text.partition("</script>")[0])
    off = set(page["disabledExtensions"])
    found = {name: server.client.get(way).status_code != 404 for name, way in ways.items()}
    parts = ("assignment-list", "create-assignment", "formgrader")
    shown = {f"page's {one}": not {_NBGRADER, f"{_NBGRADER}:{one}"} & off for one in parts}
    return {**found, **shown}


@pytest.mark.parametrize(
    ("role", "exchange", "parts"),
    [
        ("instructor", True, {"list", "courses", "formgrader", "create-assignment"}),
        ("student", True, {"list"}),
        ("student", False, set()),
    ],
)
def test_who_has_which_parts_of_nbgrader(
    python: Path, tmp_path: Path, role: str, exchange: bool, parts: set[str]
) -> None:
    env = {"PORTAL_COURSE": "deep", "PORTAL_COURSE_ROLE": role}
    if exchange:
        env["PORTAL_COURSE_EXCHANGE"] = str(tmp_path)
    env["PATH"] = f"{python.parent}:{os.environ['PATH']}"
    grades.set_settings(env)
    with a_server(python, **env) as server:
        assert has(server) == {
            "list": "list" in parts,
            "courses": "courses" in parts,
            "formgrader": "formgrader" in parts,
            "page's assignment-list": "list" in parts,
            "page's create-assignment": "create-assignment" in parts,
            "page's formgrader": "formgrader" in parts,
        }, server.log.read_text()
