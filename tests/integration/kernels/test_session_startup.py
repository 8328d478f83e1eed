"""How a session's start went: measured inside, told once, and shown with what the Hub saw."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jupyterhub
import pytest
from portal_session import startup
from portal_session.service import ServiceError
from pydantic import ValidationError
from session_records import recorded

from portal.models.session.session import SessionRecord, SessionState
from portal.models.session.startup import StartupReport
from portal.sessions.startup import startup_of

ROOT = Path(__file__).resolve().parents[3]


# -- inside ---------------------------------------------------------------------------------------


@pytest.fixture
def marks(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """No step is over yet; Python began at 100 of its clock."""
    made = {"": 100.0}
    monkeypatch.setattr(startup, "_marks", made)
    monkeypatch.setattr(startup, "_BEGAN_AT", 5000.0)
    return made


def test_each_step_lasts_from_the_one_before_it(
    marks: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([102.5, 103.0, 103.25])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    for name in ("imports", "extensions", "listening"):
        startup.mark(name)
    assert startup.steps({"PORTAL_SCRIPT_AT": "4999.250001"}) == {
        "container": 0.75,
        "imports": 2.5,
        "extensions": 0.5,
        "listening": 0.25,
    }


@pytest.mark.parametrize("text", ["", "soon", "nan", "-inf", "1e999", "5000.5", "-99999", "5000,5"])
def test_a_beginning_that_cannot_be_is_left_out(marks: dict[str, float], text: str) -> None:
    assert startup.steps({"PORTAL_SCRIPT_AT": text}) == {}


def test_the_locale_may_write_a_comma(marks: dict[str, float]) -> None:
    assert startup.steps({"PORTAL_SCRIPT_AT": "4998,5"}) == {"container": 1.5}


class Service:
    """The portal's service, which fails as often as it is told to."""

    def __init__(self, failures: int) -> None:
        self.failures, self.asked = failures, []  # type: ignore[var-annotated]

    def ask(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.asked.append((method, path, body))
        if self.failures:
            self.failures -= 1
            raise ServiceError("The portal cannot be reached.", 503)
        return {}


def test_it_is_told_once_when_the_hub_has_the_port(marks: dict[str, float]) -> None:
    service = Service(failures=2)
    telling = startup.StartupReporter(service, {}, logging.getLogger("server"))
    telling.report_startup()
    assert service.asked == []
    marks |= {"imports": 101.0, "extensions": 102.0, "listening": 103.0}
    for _ in range(5):
        telling.report_startup()
    body = {"steps": {"imports": 1.0, "extensions": 1.0, "listening": 1.0}}
    assert service.asked == [("POST", "session/startup", body)] * 3
    StartupReport.model_validate(body)


def test_it_gives_up_some_time(marks: dict[str, float]) -> None:
    marks["listening"] = 103.0
    service = Service(failures=1000)
    telling = startup.StartupReporter(service, {}, logging.getLogger("server"))
    for _ in range(50):
        telling.report_startup()
    assert len(service.asked) == 20


def test_the_job_script_notes_when_it_begins() -> None:
    for kind, name in (("container", "APPTAINERENV_PORTAL_SCRIPT_AT"), ("venv", startup.VARIABLE)):
        said = subprocess.run(
            ["bash", ROOT / "deploy" / "session.sh", "printenv", name],
            env={"PATH": os.environ["PATH"], "PORTAL_KIND": kind, "HOME": "/nonexistent"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert abs(time.time() - float(said)) < 30


def test_the_server_notes_its_own_beginning_first() -> None:
    """Before the modules that take long."""
    code = (
        "import sys; sys.argv = ['x']; import portal_session.__main__; "
        "print(list(sys.modules).index('portal_session.startup') < "
        "list(sys.modules).index('portal_session.places'))"
    )
    said = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT / "kernels")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip() == "True"


@pytest.mark.parametrize("needs", [False, True])
def test_the_server_is_imported_without_the_hubs_database(tmp_path: Path, needs: bool) -> None:
    """It begins anew, with it, where JupyterHub needs it; who imports it later gets it."""
    ours = tmp_path / "jupyterhub"
    shutil.copytree(Path(jupyterhub.__file__).parent, ours, ignore=shutil.ignore_patterns("*.pyc"))
    if needs:
        log = ours / "log.py"
        log.write_text("import sqlalchemy\nsqlalchemy.create_engine('sqlite://').connect()\n")
        log.open("a").write((Path(jupyterhub.__file__).parent / "log.py").read_text())
    script = f"""if True:
        import os, sys
        sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT / "kernels")!r}]
        from portal_session.imports import import_singleuser
        again = ["-c", sys.orig_argv[2], *sys.argv[1:]]
        exec_ = os.execv
        os.execv = lambda program, words: (print(*words[1:]), exec_(program, [program, *again]))
        sys.stdout.reconfigure(line_buffering=True)
        extension = import_singleuser()
        assert extension.__file__.startswith({str(tmp_path)!r}), extension.__file__
        print(sorted({{"alembic", "sqlalchemy", "jupyterhub.orm"}} & set(sys.modules)))
        from jupyterhub import orm
        from jupyterhub.handlers.pages import HealthCheckHandler
        print(orm.User.__tablename__, HealthCheckHandler.get.__name__)
        """
    done = subprocess.run(
        [sys.executable, "-c", script, "--port=0"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    brought = ["alembic", "jupyterhub.orm", "sqlalchemy"] if needs else []
    anew = ["-I -m portal_session --port=0"] if needs else []
    assert done.stdout.splitlines() == [*anew, str(brought), "users get"]


@pytest.mark.parametrize("set_", [False, True])
def test_no_session_starts_node(tmp_path: Path, set_: bool) -> None:
    """JupyterLab asks it for a registry that only a build of its pages uses, and jupyter-lsp where
    npm installs: that is asked where somebody has set another place."""
    started = tmp_path / "started"
    (tmp_path / "bin").mkdir()
    for name in ("node", "npm"):
        program = tmp_path / "bin" / name
        program.write_text(f"#!/bin/sh\ntouch {started}\necho /elsewhere\n")
        program.chmod(0o755)
    if set_:
        (tmp_path / ".npmrc").write_text("prefix=/elsewhere\n")
    code = (
        "import sys; sys.argv = ['x']; from jupyterhub.singleuser import extension; "
        "from jupyterlab.commands import AppOptions; from portal_session.__main__ import main; "
        "from jupyter_lsp import LanguageServerManager; extension.main = lambda: "
        "print(AppOptions().registry, *LanguageServerManager().node_roots); main()"
    )
    said = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "HOME": str(tmp_path)}
        | {"PYTHONPATH": str(ROOT / "kernels")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.startswith("https://")
    assert said.stdout.split()[-1] == ("/elsewhere" if set_ else str(tmp_path))
    assert started.exists() is set_


# -- what is taken --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "steps",
    [
        {},
        {"queue": 1.0},
        {"container": -1},
        {"container": float("nan")},
        {"container": 86401},
        {"container": "long"},
        {"<script>": 1},
        [],
        None,
    ],
)
def test_what_is_no_step_is_refused(steps: Any) -> None:
    with pytest.raises(ValidationError):
        StartupReport.model_validate({"steps": steps})


# -- what is shown --------------------------------------------------------------------------------


def record(**more: Any) -> SessionRecord:
    return recorded(id="S", user="ada", submitted_at=1000.0, **more)


def shown(this: SessionRecord, **told: float) -> list[tuple[str, float]]:
    found = startup_of(this, told)
    assert found is not None
    return [(step.name, step.seconds) for step in found.steps]


def test_all_steps_in_their_order() -> None:
    this = record(state=SessionState.RUNNING, started_at=1010.0, ready_at=1016.5)
    told = {"page": 2.0, "listening": 0.5, "imports": 2.5, "container": 1.0, "extensions": 1.5}
    assert shown(this, **told) == [
        ("queue", 10.0),
        ("container", 1.0),
        ("imports", 2.5),
        ("extensions", 1.5),
        ("listening", 0.5),
        ("rest", 1.0),
        ("page", 2.0),
    ]
    found = startup_of(this, told)
    assert found is not None
    assert found.ready == 16.5  # the page comes after that


def test_without_the_sessions_word_there_is_the_queue_and_the_rest() -> None:
    this = record(state=SessionState.RUNNING, started_at=1010.0, ready_at=1016.5)
    assert shown(this) == [("queue", 10.0), ("rest", 6.5)]


def test_clocks_that_differ_make_nothing_negative() -> None:
    this = record(state=SessionState.RUNNING, started_at=999.0, ready_at=1001.0)
    assert shown(this, container=30.0) == [("queue", 0.0), ("container", 30.0), ("rest", 0.0)]


def test_a_session_that_waits_has_nothing_to_tell() -> None:
    assert startup_of(record(), {}) is None
    found = startup_of(record(started_at=1010.0), {})
    assert found is not None
    assert found.ready is None
