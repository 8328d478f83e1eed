"""What counts as activity in a session: cells, terminals, programs that compute; not pages."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from machine import patience
from portal_session.activity import STALE, Activity
from portal_session.measurements.processes import SHARE, Processes

from portal.models.session.activity import SessionActivity

HERTZ = os.sysconf("SC_CLK_TCK")
SERVER, KERNEL, SHELL = 100, 200, 300


# -- processes -------------------------------------------------------------------------------------


class Proc:
    """A /proc of the test: ``add`` makes or changes a process; ``ticks`` is its CPU time."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.add_process(50, 1, environ="SLURM_JOB_ID=7")
        self.add_process(SERVER, 50, environ="SLURM_JOB_ID=7")
        self.add_process(KERNEL, SERVER, environ="PORTAL_JOB_ID=7")
        self.add_process(SHELL, SERVER, environ="PORTAL_JOB_ID=7")

    def add_process(
        self,
        number: int,
        parent: int,
        ticks: int = 0,
        *,
        argv: str = "python3",
        environ: str = "",
        born: int = 5,
        children: int = 0,
        name: str = "a) (b",
    ) -> None:
        place = self.root / "proc" / str(number)
        place.mkdir(parents=True, exist_ok=True)
        rest = ["S", str(parent), *["0"] * 9, str(ticks), "0", str(children), "0"]
        rest += ["0"] * 4 + [str(born)]
        (place / "stat").write_text(f"{number} ({name}) {' '.join(rest)} 0\n")
        (place / "cmdline").write_bytes(argv.replace(" ", "\0").encode() + b"\0")
        (place / "environ").write_bytes(environ.replace(" ", "\0").encode() + b"\0")


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def looked(proc: Proc, portal: str = "") -> tuple[Processes, Any]:
    processes = Processes("7", portal, root=proc.root, server=SERVER)
    at = iter(range(0, 1000, 10))
    look = lambda: processes.used_cpu({KERNEL, SHELL}, next(at))  # noqa: E731
    assert look() is None, "the first look has nothing to compare with"
    return processes, look


ENOUGH = int(10 * SHARE * HERTZ)  # ticks in the ten seconds between two looks


@pytest.mark.parametrize(
    ("number", "parent", "more", "counts"),
    [
        (201, KERNEL, {}, True),
        (301, SHELL, {}, True),
        (301, SHELL, {"argv": "/usr/bin/python3 train.py --tensorboard"}, True),
        (301, SHELL, {"argv": "/usr/bin/python3 /opt/bin/tensorboard --logdir=x"}, False),
        (201, KERNEL, {"argv": "python3 -m tensorboard.main"}, False),
        (101, SERVER, {}, False),  # of jupyter-server-proxy, of a language server
        (400, 1, {"environ": "PORTAL_JOB_ID=7"}, True),  # tmux, nohup
        (400, 1, {"environ": "SLURM_JOB_ID=7"}, True),
        (400, 1, {"environ": "SLURM_JOB_ID=70"}, False),
        (400, 1, {"environ": "PORTAL_JOB_ID=7 SLURM_JOB_ID=8"}, False),  # a job from the terminal
        (400, 1, {}, False),
        (400, 399, {"environ": "PORTAL_JOB_ID=7"}, True),
    ],
)
def test_whose_cpu_time_counts(
    proc: Proc, number: int, parent: int, more: Any, counts: bool
) -> None:
    proc.add_process(number, parent, 0, **more)
    _, look = looked(proc)
    assert look() is False
    proc.add_process(number, parent, ENOUGH + 1, **more)
    assert look() is counts
    assert look() is False, "no more of it since"


@pytest.mark.parametrize("number", [50, SERVER])
def test_the_server_and_what_it_runs_in_do_not_count(proc: Proc, number: int) -> None:
    _, look = looked(proc)
    proc.add_process(number, 1 if number == 50 else 50, 10_000, environ="SLURM_JOB_ID=7")
    assert look() is False


def test_little_is_nothing_and_many_littles_are_much(proc: Proc) -> None:
    _, look = looked(proc)
    proc.add_process(KERNEL, SERVER, ENOUGH // 4)
    assert look() is False
    for number in range(500, 508):
        proc.add_process(number, SHELL, ENOUGH // 4)
    assert look() is True


def test_a_child_that_has_ended_counts_in_its_parent(proc: Proc) -> None:
    _, look = looked(proc)
    proc.add_process(SHELL, SERVER, 0, children=ENOUGH + 1)
    assert look() is True


def test_a_number_that_was_given_again_is_another_process(proc: Proc) -> None:
    proc.add_process(301, SHELL, 10_000, argv="tensorboard", born=5)
    _, look = looked(proc)
    assert look() is False
    proc.add_process(301, SHELL, ENOUGH + 1, argv="python3", born=9)
    assert look() is True


def test_a_job_of_the_same_number_of_another_portal(proc: Proc) -> None:
    portal = "http://a/services/portal/"
    _, look = looked(proc, portal)
    proc.add_process(
        400, 1, 10_000, environ="SLURM_JOB_ID=7 PORTAL_SERVICE_URL=http://b/services/portal/"
    )
    assert look() is False
    proc.add_process(401, 1, 10_000, environ=f"SLURM_JOB_ID=7 PORTAL_SERVICE_URL={portal}")
    assert look() is True


def test_parents_in_a_circle_end(proc: Proc) -> None:
    proc.add_process(600, 601, 10_000)
    proc.add_process(601, 600, 10_000)
    _, look = looked(proc)
    assert look() is False


def test_without_proc_nothing_is_known(tmp_path: Path) -> None:
    assert Processes("7", root=tmp_path, server=1).used_cpu(set(), 1.0) is None


def test_a_clock_that_stands_still_says_nothing(proc: Proc) -> None:
    processes, _ = looked(proc)
    assert processes.used_cpu({KERNEL}, 0.0) is None


@pytest.fixture
def burner() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    yield child
    child.kill()
    child.wait()


def test_a_real_process_that_computes(burner: subprocess.Popen[bytes]) -> None:
    processes = Processes("")
    processes.used_cpu({burner.pid}, time.monotonic())
    deadline = time.monotonic() + patience(20)

    def used(roots: set[int]) -> bool:
        time.sleep(0.3)
        return processes.used_cpu(roots, time.monotonic()) is True

    while not used({burner.pid}):
        assert time.monotonic() < deadline
    processes.used_cpu(set(), time.monotonic())
    assert not used(set()), "a process of the server itself, as TensorBoard is"


# -- kernels, terminals, requests -----------------------------------------------------------------


class Server:
    """jupyter_server as far as it is looked at, with a clock of the test."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.used: bool | None = False
        self.kernel = SimpleNamespace(
            execution_state="idle",
            last_activity=datetime(2026, 1, 1, tzinfo=UTC),
            provisioner=SimpleNamespace(pid=KERNEL),
        )
        self.terminal = SimpleNamespace(
            last_activity=datetime(2026, 1, 1, tzinfo=UTC), ptyproc=SimpleNamespace(pid=SHELL)
        )
        self.kernel_manager = SimpleNamespace(
            _kernels={"k": self.kernel}, untracked_message_types=["status"]
        )
        terminals = SimpleNamespace(terminals={"1": self.terminal})
        self.settings: dict[str, Any] = {
            "terminal_manager": terminals,
            "base_url": "/user/ada/",
            "log_function": lambda handler: self.logged.append(handler),
        }
        self.logged: list[Any] = []
        self.roots: list[set[int]] = []
        self.web_app = SimpleNamespace(settings=self.settings)
        self.callbacks: list[Any] = []
        self.io_loop = SimpleNamespace(spawn_callback=self.callbacks.append)
        app: Any = self
        self.activity = Activity(app, self, lambda: self.now)

    def used_cpu(self, roots: set[int], now: float) -> bool | None:
        """As Processes: what the activity asks."""
        self.roots.append(roots)
        return self.used

    def go(self, seconds: float) -> dict[str, Any] | None:
        self.now += seconds
        asyncio.run(self.activity.record_changes())
        report = self.activity.report()
        # Whatever is said, the service's model takes it.
        SessionActivity.model_validate(report)
        return report

    def request(self, method: str, path: str, status: int = 200) -> None:
        self.settings["log_function"](
            SimpleNamespace(
                request=SimpleNamespace(method=method, path=path), get_status=lambda: status
            )
        )


@pytest.fixture
def server() -> Server:
    made = Server()
    made.go(0)
    return made


def test_ages_grow_while_nothing_happens(server: Server) -> None:
    assert server.go(600) == {
        "busy_kernels": 0, "kernel": 600.0, "terminal": 600.0, "processes": 600.0
    }  # fmt: skip
    assert server.roots[-1] == {KERNEL, SHELL}


def test_a_busy_kernel_and_one_that_was_busy_between_two_looks(server: Server) -> None:
    server.kernel.execution_state = "busy"
    assert server.go(600) == {
        "busy_kernels": 1, "kernel": 0.0, "terminal": 600.0, "processes": 600.0
    }  # fmt: skip
    server.kernel.execution_state = "idle"
    report = server.go(60)
    assert report is not None and (report["busy_kernels"], report["kernel"]) == (0, 60.0)
    server.kernel.last_activity += timedelta(seconds=1)
    report = server.go(60)
    assert report is not None and report["kernel"] == 0.0


@pytest.mark.parametrize("jump", [timedelta(days=1), -timedelta(days=1)])
def test_a_clock_that_was_set_changes_no_age(server: Server, jump: timedelta) -> None:
    """The kernel's time is only compared with itself: another one means that something ran."""
    server.go(600)
    server.terminal.last_activity += jump
    report = server.go(10)
    assert report is not None
    assert (report["kernel"], report["terminal"]) == (610.0, 0.0)


def test_terminals_and_programs(server: Server) -> None:
    server.terminal.last_activity += timedelta(seconds=1)
    report = server.go(600)
    assert report is not None and (report["terminal"], report["kernel"]) == (0.0, 600.0)
    server.used = True
    report = server.go(600)
    assert report is not None and (report["processes"], report["kernel"]) == (0.0, 1200.0)
    server.used = None
    report = server.go(600)
    assert report is not None and report["processes"] is None, "not known is not idle"


def test_a_new_kernel_is_activity_and_one_that_went_is_none(server: Server) -> None:
    server.kernel_manager._kernels["k2"] = SimpleNamespace(execution_state="starting")
    report = server.go(600)
    assert report is not None and report["kernel"] == 0.0
    server.kernel_manager._kernels.clear()
    report = server.go(600)
    assert report is not None and report["kernel"] == 600.0


def test_a_server_without_terminals_or_kernels_is_idle_since_its_start(server: Server) -> None:
    del server.settings["terminal_manager"]
    server.kernel_manager._kernels.clear()
    assert server.go(600) == {
        "busy_kernels": 0, "kernel": 600.0, "terminal": 600.0, "processes": 600.0
    }  # fmt: skip


def test_a_server_that_hangs_says_nothing(server: Server) -> None:
    server.now += STALE + 1
    assert server.activity.report() is None
    assert Server().activity.report() is None, "nor one that has not looked yet"


def test_widgets_and_completions_are_no_execution(server: Server) -> None:
    server.activity.begin()
    assert {"status", "comm_msg", "comm_open", "complete_request"} <= set(
        server.kernel_manager.untracked_message_types
    )
    assert server.web_app.last_activity == server.activity.last_activity
    assert server.callbacks


def test_what_the_hub_is_told(server: Server) -> None:
    def age() -> float:
        return (datetime.now(UTC) - server.activity.last_activity()).total_seconds()

    server.activity._note_requests(server.settings)
    assert age() == pytest.approx(0, abs=1)
    first = server.activity.last_activity()
    server.go(600)
    assert server.activity.last_activity() == pytest.approx(first, abs=timedelta(seconds=1))
    assert server.activity.last_activity() >= first, "or the server would say nothing"


@pytest.mark.parametrize(
    ("method", "path", "status", "counts"),
    [
        ("PUT", "/user/ada/api/contents/a.ipynb", 200, True),
        ("POST", "/user/ada/api/sessions", 201, True),
        ("PUT", "/user/ada/lab/api/workspaces/default", 204, True),
        ("GET", "/user/ada/api/kernels", 200, False),
        ("GET", "/user/ada/api/contents", 200, False),
        ("PUT", "/user/ada/api/contents/a.ipynb", 403, False),
        ("POST", "/user/ada/portal/situation", 200, False),
        ("POST", "/user/ada/tensorboard/1/data/plugin/scalars", 200, False),
        ("POST", "/user/ada/proxy/6006/data", 200, False),
        ("POST", "/user/eve/api/contents", 200, False),
    ],
)
def test_requests_of_a_person_and_of_pages(
    server: Server, method: str, path: str, status: int, counts: bool
) -> None:
    server.activity._note_requests(server.settings)
    server.go(600)
    server.activity._reported = None
    server.request(method, path, status)
    age = (datetime.now(UTC) - server.activity.last_activity()).total_seconds()
    assert age == pytest.approx(0 if counts else 600, abs=1)
    assert len(server.logged) == 1, "the log has its line all the same"
    report = server.go(0)
    assert report is not None and report["kernel"] == 600.0, "no matter for the GPUs"
