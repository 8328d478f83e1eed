"""A real jupyter_server with portal-session's extensions, without a Hub, for tests of the parts
that run inside a session."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from machine import patience

from portal.demo.daemons.ports import free_port
from portal.demo.daemons.process import end_child

KERNELS = Path(__file__).resolve().parents[3] / "kernels"
BASE = "/user/ada/"
TOKEN = "a-token-of-the-test"
PATIENCE = patience(90)  # seconds until a test gives up
_SCRIPT = """#!{python}
import sys
from portal_session.tensorboard.program import main
sys.exit(main())
"""


def make_python(root: Path) -> Path:
    """Make a virtual environment with this one's packages and ``kernels/``; return its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", root], check=True, timeout=120)
    packages = next(root.glob("lib/python3*/site-packages"))
    here = next(path for path in sys.path if path.endswith("site-packages"))
    (packages / "a_here.pth").write_text(f"{KERNELS}\n{here}\n")
    for path in (*KERNELS.glob("*.pth"), *KERNELS.glob("*.start")):
        (packages / path.name).write_text(path.read_text())
    project = tomllib.loads((KERNELS / "pyproject.toml").read_text())["project"]
    about = packages / "portal_session-0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: portal-session\nVersion: 0\n")
    points = [
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in targets.items())
        for group, targets in project["entry-points"].items()
    ]
    (about / "entry_points.txt").write_text("\n".join(points))
    config = root / "etc/jupyter/jupyter_server_config.d"
    config.mkdir(parents=True)
    (config / "portal_session.json").write_text(
        (KERNELS / "config/server_extension.json").read_text()
    )
    switch = {"ServerApp": {"jpserver_extensions": {"jupyterlab": True}}}
    (config / "jupyterlab.json").write_text(json.dumps(switch))
    python = root / "bin/python"
    script = root / "bin/portal-tensorboard"
    script.write_text(_SCRIPT.format(python=python))
    script.chmod(0o755)
    return python


def add_lab_extension(python: Path) -> None:
    """Build JupyterLab's extension, unless it is built, and install it beside ``python``."""
    module = importlib.util.spec_from_file_location("hatch_build", KERNELS / "hatch_build.py")
    assert module and module.loader
    hook = importlib.util.module_from_spec(module)
    module.loader.exec_module(hook)
    built = hook.build(KERNELS / "labextension", hook.cache_directory(os.environ))
    shutil.copytree(built, python.parents[1] / "share/jupyter/labextensions" / hook.NAME)


class SessionServer:
    """Running server; `client` uses its API as its owner does."""

    def __init__(self, home: Path, port: int, process: subprocess.Popen[bytes]) -> None:
        self.home = home
        self.process = process
        self.url = f"http://127.0.0.1:{port}"
        self.client = httpx.Client(
            base_url=self.url + BASE, headers={"Authorization": f"token {TOKEN}"}, timeout=60
        )
        self.log = home / "server.log"

    @property
    def runtime(self) -> Path:
        """Private directory of its TensorBoards."""
        (folder,) = (self.home / "t").glob("portal-tb-*")
        return folder

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        return self.client.request(method, f"portal/tensorboard/{path}", **more)

    def start(self, *folders: Any, **more: Any) -> dict[str, Any]:
        response = self.ask("POST", "api/running", json={"folders": list(folders), **more})
        assert response.status_code == 201, response.text
        return dict(response.json())

    def state(self, board: dict[str, Any]) -> dict[str, Any]:
        return dict(self.ask("GET", f"api/running/{board['number']}").json())

    def until(self, board: dict[str, Any], *states: str) -> dict[str, Any]:
        return wait_for(
            lambda: state if (state := self.state(board))["state"] in states else None,
            lambda: f"{self.state(board)} {self.log.read_text()[-2000:]}",
        )

    def get(self, board: dict[str, Any], path: str = "", **more: Any) -> httpx.Response:
        # The very first request for a TensorBoard is redirected.
        return self.client.get(self.url + board["url"] + path, follow_redirects=True, **more)

    def stop(self, board: dict[str, Any]) -> None:
        assert self.ask("DELETE", f"api/running/{board['number']}").status_code == 204


def wait_for(ready: Callable[[], Any], said: Callable[[], str] = str) -> Any:
    """Wait until the result of ``ready`` is true and return it."""
    end = time.monotonic() + PATIENCE
    while not (result := ready()):
        assert time.monotonic() < end, said()
        time.sleep(0.05)
    return result


@contextmanager
def a_server(python: Path, *arguments: str, **environment: str) -> Iterator[SessionServer]:
    """Run a server whose home is a new directory that every user of the machine may enter."""
    with tempfile.TemporaryDirectory(prefix="s-", dir="/tmp") as place:
        home = Path(place)
        home.chmod(0o755)
        (home / "t").mkdir()
        port = free_port()
        argv = [python, "-I", "-m", "jupyter_server", "--no-browser", f"--port={port}"]
        argv += [f"--IdentityProvider.token={TOKEN}", f"--ServerApp.base_url={BASE}"]
        argv += [f"--ServerApp.root_dir={home}", "--ServerApp.port_retries=0", *arguments]
        if os.geteuid() == 0:
            argv.append("--allow-root")
        env = {
            "PATH": f"{python.parent}:{os.environ['PATH']}",
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "TMPDIR": str(home / "t"),
            "PYTHONUSERBASE": str(home / "base"),
            "JUPYTERLAB_DIR": f"{sys.prefix}/share/jupyter/lab",
            **environment,
        }
        log = home / "server.log"
        with log.open("wb") as out:
            process = subprocess.Popen(argv, env=env, cwd=home, stdout=out, stderr=out)
        server = SessionServer(home, port, process)

        def answers() -> bool:
            assert process.poll() is None, log.read_text()
            try:
                return server.client.get("api").is_success
            except httpx.TransportError:
                return False

        try:
            wait_for(answers, log.read_text)
            yield server
        finally:
            server.client.close()
            end_child(process, 30)
