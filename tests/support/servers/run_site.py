"""Job of a run's point on this machine: its program, kernel and files are real; the portal's
service is played on loopback, and Slurm by the environment of the program."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from machine import patience
from portal_session.kernels import command_line
from portal_session.runs.plan import Plan, freeze
from portal_session.runs.points import Point
from portal_session.runs.source import read_source
from quiet_http import QuietHandler, serving

TOKEN = "a-token-of-a-job"
REPETITION = "7e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162"  # id of a repeated run
PATIENCE = patience(60)  # seconds until a test gives up


class PlayedService:
    """The portal's service: ``reports`` has what it took, ``away`` how many requests it refuses
    first, ``outputs`` the outputs of points; ``choose`` gives the parameters of a search's point by
    its number. ``watched``: it says that somebody looks; ``questions``: of the next answer, to a
    kept kernel."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.reports: list[dict[str, Any]] = []
        self.refused: list[dict[str, Any]] = []
        self.times: list[float] = []
        self.away = 0
        self.choose: Callable[[int], dict[str, Any]] = lambda number: {}
        self.outputs: list[dict[str, Any]] = []
        self.watched = self.missing = self.end_kernel = False
        self.questions: list[dict[str, Any]] = []

    def of_point(self, number: int) -> list[dict[str, Any]]:
        """Reports of a point, in their order."""
        return [report for report in self.reports if report["point"] == number]

    def last(self, number: int) -> dict[str, Any]:
        """Newest report of a point."""
        return self.of_point(number)[-1]

    def take_output(self, body: dict[str, Any]) -> dict[str, Any]:
        """Take an output; return the answer."""
        self.outputs.append(body)
        questions, self.questions = self.questions, []
        about = {"watched": self.watched, "missing": self.missing, "end": self.end_kernel}
        return {**about, "questions": questions}


@contextmanager
def played_service() -> Iterator[PlayedService]:
    """Serve the points' reports while the block runs."""

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            path = self.path.removeprefix("/services/portal/api/v1/session/points")
            assert path in ("", "/ask", "/output"), self.path
            assert self.headers["Authorization"] == f"token {TOKEN}"
            if path == "/output":
                self.send_whole(200, json.dumps(service.take_output(body)).encode())
                return
            if service.away:
                service.away -= 1
                service.refused.append(body)
                self.send_whole(503, b"{}")
                return
            if path == "/ask":
                answer = {"parameters": service.choose(body["point"])}
                self.send_whole(200, json.dumps(answer).encode())
                return
            service.times.append(time.monotonic())
            service.reports.append(body)
            self.send_whole(200, json.dumps({"watched": service.watched}).encode())

    with serving(Handler) as server:
        service = PlayedService(f"http://127.0.0.1:{server.server_address[1]}/services/portal")
        yield service


class RunSite:
    """Home with notebooks and scripts, whose runs are executed point by point."""

    def __init__(self, root: Path, service: PlayedService) -> None:
        self.service = service
        self.home = root / "home"
        self.work = self.home / "work"
        self.work.mkdir(parents=True)
        installed = root / "installed"  # as far as jupyter_client asks for it
        about = installed / "portal_session-0.1.0.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text("Name: portal-session\nVersion: 0.1.0\n")
        (about / "entry_points.txt").write_text(
            "[jupyter_client.kernel_provisioners]\n"
            f"{command_line.PROVISIONER} = portal_session.kernels.command_line:SessionProvisioner\n"
        )
        package = Path(command_line.__file__).parents[2]
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "PYTHONPATH": f"{package}:{installed}",
            "PORTAL_ENVIRONMENT": "venv",
            "PORTAL_SERVICE_URL": service.url,
            "JUPYTERHUB_API_TOKEN": TOKEN,
            "SLURM_ARRAY_JOB_ID": "123",
            "SLURM_JOB_ID": "130",
            "SLURMD_NODENAME": "gpu01",
        }
        self.run: dict[str, Any] = {}
        self.processes: list[subprocess.Popen[str]] = []

    def notebook(self, *cells: str, name: str = "train.ipynb", parameters: str = "") -> Path:
        """Write a notebook with these code cells; the first one has ``parameters``."""
        made = [nbformat.v4.new_code_cell(text) for text in cells]
        if parameters:
            tags = {"tags": ["parameters"]}
            made.insert(0, nbformat.v4.new_code_cell(parameters, metadata=tags))
        notebook = nbformat.v4.new_notebook(cells=made)
        notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
        path = self.work / name
        nbformat.write(notebook, path)
        return path

    def script(self, text: str, name: str = "train.py") -> Path:
        """Write a script."""
        path = self.work / name
        path.write_text(text)
        return path

    def plan(self, source: Path, points: list[Point] | None = None, **more: Any) -> Plan:
        """Freeze a run. ``more``: arguments of `freeze`."""
        more.setdefault("kernel", "python3" if source.suffix == ".ipynb" else "")
        return freeze(read_source(source), points or [{}], source.stem, **more)

    def begin(self, plan: Plan, number: int = 0, **variables: str) -> subprocess.Popen[str]:
        """Start the program of a task. `run` has more of what the portal says of the run."""
        named = {
            "id": plan.id,
            "name": plan.name,
            "folder": str(plan.folder),
            "points": plan.points,
            "code_digest": plan.code_digest,
            **self.run,
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "portal_session.runs.point"],
            env={
                **self.environ,
                "PORTAL_RUN": json.dumps(named),
                "SLURM_ARRAY_TASK_ID": str(number),
                **variables,
            },
            cwd=self.home,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def execute(self, plan: Plan, number: int = 0, **variables: str) -> tuple[int, str]:
        """Execute a point to its end; return the exit code and what the job's log says."""
        process = self.begin(plan, number, **variables)
        said, _ = process.communicate(timeout=PATIENCE)
        return process.returncode, said

    def repeat(self, plan: Plan, digest: str = "") -> tuple[int, str, Path]:
        """Execute the first point of a colleague's repetition; return the exit code, what its log
        says, and the folder of the point."""
        folder = self.home / "runs/train-2"
        named = {
            "id": REPETITION, "name": "train-2", "folder": str(folder), "points": 1,
            "code_digest": digest or plan.code_digest,
            "origin": {"id": plan.id, "user": "ada", "folder": str(plan.folder)},
        }  # fmt: skip
        code, said = self.execute(plan, PORTAL_RUN=json.dumps(named))
        return code, said, folder / "0000"

    def end(self) -> None:
        """Kill what is left."""
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def outputs(folder: Path) -> list[list[dict[str, Any]]]:
    """Outputs of each cell of a point's notebook."""
    notebook = json.loads((folder / "output.ipynb").read_text())
    nbformat.validate(nbformat.from_dict(notebook))
    return [cell.get("outputs", []) for cell in notebook["cells"]]


def printed(folder: Path) -> str:
    """Text that all cells of a point's notebook have printed."""
    streams = (output for cell in outputs(folder) for output in cell if "text" in output)
    return "".join("".join(stream["text"]) for stream in streams)


def manifest(folder: Path) -> dict[str, Any]:
    """Manifest of a point."""
    return dict(json.loads((folder / "manifest.json").read_text()))


def wait_until(ready: Callable[[], Any], seconds: float = PATIENCE) -> None:
    """Wait until ``ready`` returns something true."""
    deadline = time.monotonic() + patience(seconds)
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.1)
