"""JupyterHub's internal_ssl: Hub, proxy and session speak TLS with certificates on both sides."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hub_client import Person
from other_hub import other_hub
from terminal import terminal

SETTINGS = """
c.JupyterHub.internal_ssl = True
c.JupyterHub.internal_certs_location = place + "/internal-ssl"
"""


@pytest.fixture
def tls_hub(demo: Any) -> Iterator[str]:
    """The address of a second Hub on the demo's Slurm, with internal_ssl."""
    with other_hub(demo, SETTINGS, scheme="https") as (url, _):
        yield url


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
