"""portal-run in a real session: its server asks the portal, which is played on loopback."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from quiet_http import QuietHandler, serving
from run_fields import choices
from session_server import SessionServer, a_server, make_python

pytest.importorskip("jupyterlab")
TOKEN = "a-token-of-a-session"


class Portal:
    """The portal's service: ``asked`` has method, path, body and token of each request for runs."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any, str]] = []
        self.refusal = ""
        self.url = ""

    def runs(self) -> list[dict[str, Any]]:
        bodies = [body for method, _, body, _ in self.asked if method == "POST"]
        return [{**body, "counts": {"waiting": body["points"]}} for body in bodies]


@pytest.fixture(scope="module")
def portal() -> Iterator[Portal]:
    portal = Portal()

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            self.answer(None)

        def do_DELETE(self) -> None:
            self.answer(None)

        def do_POST(self) -> None:
            self.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def answer(self, body: Any) -> None:
            path = self.path.removeprefix("/api/v1/")
            if "runs" not in path:
                self.send_whole(404, b"{}")
                return
            portal.asked.append((self.command, path, body, self.headers["Authorization"]))
            if self.command == "POST" and portal.refusal:
                refusal = {"error": {"code": "not_allowed", "message": portal.refusal}}
                self.send_whole(403, json.dumps(refusal).encode())
            elif path.endswith("/choices"):
                self.send_whole(200, json.dumps(choices()).encode())
            elif path.startswith("runs?"):
                self.send_whole(200, json.dumps({"items": portal.runs()}).encode())
            elif self.command == "GET" and path.count("/") == 1:
                self.send_whole(200, b'{"message": "Job 7: waiting for resources."}')
            else:
                self.send_whole(200 if body is None else 202, b'{"items": [], "total": 0}')

    with serving(Handler) as server:
        portal.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield portal


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory, portal: Portal) -> Iterator[SessionServer]:
    python = make_python(tmp_path_factory.mktemp("venv") / "venv")
    environ = {
        "PORTAL_SERVICE_URL": portal.url,
        "JUPYTERHUB_API_TOKEN": TOKEN,
        "PORTAL_ENVIRONMENT": "pytorch",
    }
    with a_server(python, **environ) as server:
        server.python = python  # type: ignore[attr-defined]
        yield server


def portal_run(session: SessionServer, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run the program with what a terminal of the session has."""
    (broker,) = (session.home / "t").glob("portal-kernels-*/broker")
    python = str(session.python)  # type: ignore[attr-defined]
    return subprocess.run(
        [python, "-m", "portal_session.runs.portal_run.command", *argv],
        env={
            "PATH": f"{Path(python).parent}:/usr/bin:/bin",
            "HOME": str(session.home),
            "PORTAL_KERNEL_BROKER": str(broker),
            "PORTAL_ENVIRONMENT": "pytorch",
        },
        cwd=session.home,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_run_from_its_start_to_its_stop(session: SessionServer, portal: Portal) -> None:
    repository = session.home / "project"
    repository.mkdir()
    (repository / "train.py").write_text("print('on')\n")
    git = ["git", "-C", str(repository), "-c", "user.name=Ada", "-c", "user.email=ada@localhost"]
    for words in (["init", "-q"], ["add", "train.py"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    done = portal_run(session, "project/train.py", "--set", "lr=0.1,1", "--gpus", "1")
    assert (done.returncode, done.stderr) == (0, ""), done
    assert "Run 'train': 2 points, at most 2 at once." in done.stdout
    method, path, body, token = portal.asked[-1]
    assert (method, path, token) == ("POST", "session/runs", f"token {TOKEN}")
    folder = repository / "runs/train"
    assert body["folder"] == str(folder) and body["environment"] == "pytorch"
    content = json.loads((folder / "run.json").read_text())
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True)
    assert content["git"] == {"commit": commit.stdout.strip(), "dirty": False}
    (repository / "new.py").write_text("print('not committed')\n")
    assert portal_run(session, "project/new.py").returncode == 0
    assert json.loads((repository / "runs/new/run.json").read_text())["git"]["dirty"] is True
    (repository / "train.py").write_text("print('changed')\n")
    assert portal_run(session, "project/train.py", "--name", "other").returncode == 0
    assert json.loads((repository / "runs/other/run.json").read_text())["git"]["dirty"] is True
    listed = portal_run(session, "list").stdout.split()
    assert "train" in listed and "other" in listed
    shown = portal_run(session, "show", "train").stdout
    assert "2 waiting" in shown and "Job 7: waiting for resources." in shown
    assert portal.asked[-2][:2] == ("GET", f"runs/{body['id']}/points?limit=100")
    assert portal_run(session, "stop", "train").stdout == "The run 'train' is being stopped.\n"
    assert portal.asked[-1][:2] == ("DELETE", f"runs/{body['id']}")


def test_a_refusal_is_said_and_leaves_nothing(session: SessionServer, portal: Portal) -> None:
    place = session.home / "refused"
    place.mkdir()
    (place / "train.py").write_text("print('on')\n")
    portal.refusal = "Runs are not offered on this site."
    done = portal_run(session, "refused/train.py")
    portal.refusal = ""
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "portal-run: Runs are not offered on this site.\n"
    assert [path.name for path in place.iterdir()] == ["train.py"]


def test_the_files_of_a_point_are_opened_in_jupyterlab(session: SessionServer) -> None:
    folder = session.home / "é %/runs/train/0000"
    folder.mkdir(parents=True)
    (folder / "output.log").touch()
    answer = session.client.get("portal/runs/open", params={"path": f"{folder}/output.log"})
    assert answer.status_code == 302, answer.text
    place = "lab/tree/%C3%A9%20%25/runs/train/0000/output.log"
    assert answer.headers["Location"].endswith(place)
    answer = session.client.get("portal/runs/open", params={"path": "/etc/passwd"})
    assert answer.status_code == 400 and "/etc/passwd is not in" in answer.text
