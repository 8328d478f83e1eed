"""A separate JupyterHub with only the LDAP login, and a browser's requests to it."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from machine import patience

from portal.demo.daemons.process import end_child

ROOT = Path(__file__).resolve().parents[3]


class Hub:
    """Hub in its own process; ``stop`` ends it by its pid."""

    def __init__(self, directory: Path, settings: dict[str, Any]) -> None:
        with closing(socket.create_server(("127.0.0.1", 0))) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/hub"
        self.token = secrets.token_hex(16)
        self.log_file = directory / "hub.log"
        plain = {k: sorted(v) if isinstance(v, set) else v for k, v in settings.items()}
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "jupyterhub"),
                    *("-f", str(Path(__file__).with_name("login_hub_config.py"))),
                ],
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ
                | {
                    "LDAP_TEST_SETTINGS": json.dumps(plain),
                    "LDAP_TEST_PORT": str(self.port),
                    "LDAP_TEST_TOKEN": self.token,
                    "PYTHONPATH": str(ROOT),
                },
            )

    def wait(self, seconds: float = 60) -> None:
        deadline = time.monotonic() + patience(seconds)
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if httpx.get(f"{self.url}/health", timeout=2).status_code == 200:
                    return
            except httpx.HTTPError:
                time.sleep(0.1)
        pytest.fail("the Hub did not come up:\n" + self.log_file.read_text()[-3000:])

    def stop(self) -> None:
        end_child(self.process, 20)

    async def user(self, name: str) -> dict[str, Any]:
        async with httpx.AsyncClient(timeout=60) as client:
            headers = {"Authorization": f"token {self.token}"}
            response = await client.get(f"{self.url}/api/users/{name}", headers=headers)
        return response.json()


@contextmanager
def hub_for(directory: Path, settings: dict[str, Any]) -> Iterator[Hub]:
    hub = Hub(directory, settings)
    try:
        hub.wait()
        yield hub
    finally:
        hub.stop()


@asynccontextmanager
async def browser() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(
        timeout=60, headers={"Sec-Fetch-Mode": "navigate"}, follow_redirects=False
    ) as client:
        yield client


async def send_form(client: httpx.AsyncClient, hub: Hub, name: str, password: str) -> Any:
    await client.get(f"{hub.url}/login")
    return await client.post(
        f"{hub.url}/login",
        data={"username": name, "password": password, "_xsrf": client.cookies["_xsrf"]},
    )
