"""JupyterHub's internal_ssl: Hub, proxy and session speak TLS with certificates on both sides."""

from __future__ import annotations

import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hub_client import Person, wait_until
from terminal import terminal

from portal.demo.ports import free_port
from portal.where import data_path

CONFIG = """
load_subconfig({demo!r})
c.JupyterHub.internal_ssl = True
c.JupyterHub.internal_certs_location = {place!r} + "/internal-ssl"
c.JupyterHub.bind_url = "http://127.0.0.1:{public}"
c.JupyterHub.hub_bind_url = "https://127.0.0.1:{hub}"
c.JupyterHub.hub_connect_url = "https://127.0.0.1:{hub}"
c.ConfigurableHTTPProxy.should_start = True
c.ConfigurableHTTPProxy.api_url = "https://127.0.0.1:{api}"
c.ConfigurableHTTPProxy.pid_file = {place!r} + "/proxy.pid"
c.JupyterHub.cleanup_proxy = True
c.JupyterHub.db_url = "sqlite:///" + {place!r} + "/hub.sqlite"
c.JupyterHub.cookie_secret_file = {place!r} + "/cookie-secret"
c.JupyterHub.services = []
c.JupyterHub.load_roles = []
"""


@pytest.fixture
def tls_hub(demo: Any) -> Iterator[str]:
    """The address of a second Hub on the demo's Slurm, with internal_ssl."""
    place = Path(tempfile.mkdtemp(prefix="pt-", dir="/var/tmp"))
    place.chmod(0o755)
    own = place / "hub"
    own.mkdir()
    user = "portal" if demo.people else None
    if demo.people:
        shutil.chown(own, 6100, 6100)
    public = free_port()
    config = place / "config.py"
    config.write_text(
        CONFIG.format(
            demo=str(data_path("deploy") / "demo" / "jupyterhub_config.py"),
            place=str(own),
            public=public,
            hub=free_port(),
            api=free_port(),
        )
    )
    node = demo.home.cache / "node" / "node_modules" / ".bin"
    env = {
        "PATH": f"{Path(sys.executable).parent}:{node}:{os.environ['PATH']}",
        "PYTHONPATH": str(data_path("deploy").parent),
        "PORTAL_DEMO_STATE": str(demo.home.run / "state.json"),
    }
    log = place / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            demo.command([sys.executable, "-m", "jupyterhub", "-f", str(config)], user, env),
            stdout=out,
            stderr=out,
            cwd="/",
            start_new_session=True,
        )

    def answers() -> bool:
        assert process.poll() is None, log.read_text()[-4000:]
        try:
            return httpx.get(f"http://127.0.0.1:{public}/hub/health").status_code == 200
        except httpx.HTTPError:
            return False

    try:
        wait_until("the Hub answers", answers)
        yield f"http://127.0.0.1:{public}"
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(place)


@pytest.mark.parametrize("environment", ["python-venv", "jupyterlab"])
def test_a_session_with_internal_ssl(demo: Any, tls_hub: str, environment: str) -> None:
    student = Person(tls_hub, "student03")
    assert student.logged_in
    answer = student.launch({"environment": environment})
    assert answer.status_code in (201, 202), answer.text
    student.wait_ready()
    try:
        # The person's requests come through the proxy, which shows its certificate.
        assert student.session("GET", "api/status").status_code == 200
        where = terminal(student, "echo $JUPYTERHUB_SERVICE_URL; ls -ld ~/.portal/tls/*; env")
        url = where.splitlines()[0].strip()
        assert url.startswith("https://")
        assert "drwx------" in where.splitlines()[1]
        assert "PRIVATE KEY" not in where
        assert "PORTAL_SSL" not in where
        # Whoever has no certificate of the Hub's authority is not let in.
        port = next(
            line.split("=", 1)[1]
            for line in terminal(
                student,
                "python3 -c \"import json, glob, os; [print('port=%s' % json.load(open(f))"
                "['port']) for f in glob.glob(os.path.expanduser('~/.portal/*/jupyter/runtime/"
                "jpserver-*.json'))]\"",
            ).splitlines()
            if line.startswith("port=")
        )
        with pytest.raises((httpx.HTTPError, ssl.SSLError)):
            httpx.get(f"https://127.0.0.1:{port}/user/student03/api", verify=False)
    finally:
        student.stop()
