"""The release, built from what this checkout has and installed without the source."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path

import httpx
from machine import patience

from portal.demo.daemons.ports import free_port

ROOT = Path(__file__).resolve().parents[3]
# Seconds for a build whose downloads are in the cache; a first one compiles JupyterLab's extension.
_BUILD = 900

_CONFIG = """
import os
from portal.paths import data_path
c = get_config()
load_subconfig(str(data_path("deploy") / "jupyterhub_config.py"))
c.JupyterHub.bind_url = "http://127.0.0.1:{public}"
c.JupyterHub.hub_bind_url = "http://127.0.0.1:{hub}"
c.ConfigurableHTTPProxy.should_start = False
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{api}"
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = "portal-demo"
c.Authenticator.manage_groups = False
c.Authenticator.allow_all = True
c.EnvironmentCatalog.directory = "environments"
"""


def committed_copy(folder: Path) -> Path:
    """Return a repository of one commit with the files of this checkout that git does not ignore,
    changed ones as they are now."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    found = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    for name in filter(None, found.split("\0")):
        if (ROOT / name).is_file():  # and not deleted
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    git(folder, "init", "-q")
    commit(folder)
    return folder


def git(folder: Path, *words: str) -> str:
    """Return the output of git in ``folder``."""
    own = ["-c", "user.name=A test", "-c", "user.email=test@example.org", "-c", "gc.auto=0"]
    argv = ["git", *own, *words]
    return subprocess.run(argv, cwd=folder, capture_output=True, check=True, text=True).stdout


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", "A commit", "--date=2026-01-01T00:00:00Z")


def release(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run what ``make release`` runs, in the repository ``folder``."""
    return subprocess.run(
        [sys.executable, "deploy/release.py"],
        cwd=folder,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=_BUILD,
    )


class Installed:
    """Virtual environment with both wheels of a release and the packages that they name, those
    of the tests' environment. Nothing on its PATH is Node.js, and nothing leads to the source."""

    def __init__(self, folder: Path, wheels: list[Path]) -> None:
        self.folder, venv = folder, folder / "venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
        pip = [sys.executable, "-m", "pip", f"--python={venv}/bin/python", "install", "-q"]
        subprocess.run([*pip, "--no-deps", "--no-index", "--no-compile", *wheels], check=True)
        packages = Path(sysconfig.get_path("purelib", vars={"base": str(venv)}))
        (packages / "tested.pth").write_text(sysconfig.get_path("purelib") + "\n")
        self.bin, self.packages = venv / "bin", packages
        self.public, self.hub, self.api, self.service = (free_port() for _ in range(4))
        self.url = f"http://127.0.0.1:{self.public}"
        self.environment = {
            **{name: os.environ[name] for name in ("HOME", "USER") if name in os.environ},
            "PATH": str(self.bin),
            "LANG": "C.UTF-8",
            "CONFIGPROXY_AUTH_TOKEN": secrets.token_hex(16),
            "PORTAL_SERVICE_PORT": str(self.service),
        }
        (folder / "environments").mkdir()
        ports = {"public": self.public, "hub": self.hub, "api": self.api}
        (folder / "jupyterhub_config.py").write_text(_CONFIG.format(**ports))
        self._running: list[subprocess.Popen[bytes]] = []

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment to its end."""
        return subprocess.run(
            [self.bin / argv[0], *argv[1:]],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=patience(120),
        )

    def start(self, name: str, *argv: str, **variables: str) -> None:
        """Start a program of the environment, with its output in NAME.log."""
        with (self.folder / f"{name}.log").open("wb") as log:
            self._running.append(
                subprocess.Popen(
                    [self.bin / argv[0], *argv[1:]],
                    cwd=self.folder,
                    env=self.environment | variables,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def start_site(self) -> None:
        """Start the proxy and the Hub as their units do; return when the service answers."""
        own = [f"--port={self.public}", "--ip=127.0.0.1", "--api-ip=127.0.0.1"]
        hub = [f"--default-target=http://127.0.0.1:{self.hub}"]
        self.start("proxy", "portal", "proxy", *own, f"--api-port={self.api}", *hub)
        self.wait("the proxy", lambda: httpx.get(self.url, trust_env=False).status_code == 503)
        self.start("hub", "python", "-m", "jupyterhub", "-f", "jupyterhub_config.py")
        path = f"{self.url}/services/portal/api/v1/version"
        self.wait("the service", lambda: httpx.get(path, trust_env=False).status_code == 403)

    def wait(self, what: str, there: Callable[[], bool]) -> None:
        """Wait until ``there`` is true; connections that are refused meanwhile are not."""
        until = time.monotonic() + patience(90)
        while time.monotonic() < until and all(one.poll() is None for one in self._running):
            try:
                if there():
                    return
            except (httpx.HTTPError, OSError):
                pass
            time.sleep(0.1)
        logs = "".join(path.read_text()[-3000:] for path in self.folder.glob("*.log"))
        raise AssertionError(f"{what} does not answer:\n{logs}")

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def stop(self) -> None:
        """End all that was started, the Hub before its proxy."""
        for process in reversed(self._running):
            process.terminate()
            try:
                process.wait(patience(60))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
