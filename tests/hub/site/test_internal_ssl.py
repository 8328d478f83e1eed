"""JupyterHub's internal_ssl: Hub, proxy and session speak TLS with certificates on both sides."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from hub_client import Person
from other_hub import other_hub
from terminal import terminal

SETTINGS = """
c.JupyterHub.internal_ssl = True
c.JupyterHub.internal_certs_location = place + "/internal-ssl"
"""


class TlsHub(NamedTuple):
    """The Hub's address, and the directory of the certificates that it made."""

    url: str
    certificates: Path

    def as_the_proxy(self) -> ssl.SSLContext:
        """TLS with the proxy's own certificate, which sessions must let in."""
        context = ssl.create_default_context(cafile=self.certificates / "proxy-client-ca_trust.crt")
        own = self.certificates / "proxy-client" / "proxy-client"
        context.load_cert_chain(own.with_suffix(".crt"), own.with_suffix(".key"))
        return context


@pytest.fixture
def tls_hub(demo: Any) -> Iterator[TlsHub]:
    """A second Hub on the demo's Slurm, with internal_ssl."""
    with other_hub(demo, SETTINGS, scheme="https") as (url, place):
        yield TlsHub(url, place / "internal-ssl")


@pytest.mark.parametrize("environment", ["python-venv", "jupyterlab"])
def test_a_session_with_internal_ssl(demo: Any, tls_hub: TlsHub, environment: str) -> None:
    student = Person(tls_hub.url, "student03")
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
        # Who has a certificate of the Hub's authority is let in, and nobody else.
        find = "ls -t ~/.portal/*/jupyter/runtime/jpserver-*.json | head -n 1 | xargs cat"
        port = json.loads(terminal(student, find))["port"]
        api = f"https://127.0.0.1:{port}/user/student03/api"
        assert httpx.get(api, verify=tls_hub.as_the_proxy(), timeout=60).status_code == 200
        with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError, ssl.SSLError)):
            httpx.get(api, verify=False, timeout=60)
        with pytest.raises(httpx.HTTPError):
            httpx.get(api.replace("https:", "http:", 1), timeout=60)
    finally:
        student.stop()
