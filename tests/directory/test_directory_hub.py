"""The login form of a real JupyterHub, over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import ldap3
import pytest
from directory_site import PASSWORD, as_admin, settings_for
from machine_clock import awake

from portal.demo.slapd import Slapd

ROOT = Path(__file__).resolve().parent.parent.parent


class Hub:
    """A Hub process of its own; ``stop`` ends it by its pid."""

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
                    *("-f", str(Path(__file__).with_name("hub_config.py"))),
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
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if httpx.get(f"{self.url}/health", timeout=2).status_code == 200:
                    return
            except httpx.HTTPError:
                time.sleep(0.1)
        pytest.fail("the Hub did not come up:\n" + self.log_file.read_text()[-3000:])

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    async def user(self, name: str) -> dict[str, Any]:
        async with httpx.AsyncClient(timeout=60) as client:
            headers = {"Authorization": f"token {self.token}"}
            answer = await client.get(f"{self.url}/api/users/{name}", headers=headers)
        return answer.json()


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


@pytest.fixture(scope="module")
def hub(slapd: Slapd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with hub_for(tmp_path_factory.mktemp("hub"), settings_for(slapd)) as running:
        yield running


async def test_login_groups_and_admin(hub: Hub) -> None:
    async with browser() as client:
        answer = await send_form(client, hub, "grace", PASSWORD)
        assert answer.status_code == 302
    grace = await hub.user("grace")
    assert sorted(grace["groups"]) == ["gpu-users", "portal-admins"]
    assert grace["admin"] is True


async def test_refused_alike_on_the_page(hub: Hub) -> None:
    sentences = []
    for name, password in (
        ("ada", "wrong"),
        ("nobody-here", PASSWORD),
        ("*)(uid=*", PASSWORD),
        ("ada", ""),
    ):
        async with browser() as client:
            answer = await send_form(client, hub, name, password)
        assert answer.status_code == 403
        sentences += re.findall(r'class="login_error">(.*?)<', answer.text)
    assert sentences == ["Invalid username or password"] * 4
    assert PASSWORD not in hub.log_file.read_text()


async def test_groups_follow_without_a_new_login(own_slapd: Slapd, tmp_path: Path) -> None:
    """auth_refresh_age is one second; so is a directory that goes away and comes back."""
    (tmp_path / "hub").mkdir()
    with hub_for(tmp_path / "hub", settings_for(own_slapd)) as hub:
        async with browser() as client:
            assert (await send_form(client, hub, "ada", PASSWORD)).status_code == 302

            async def groups(wanted: list[str]) -> list[str]:
                found: list[str] = []
                for _ in range(20):
                    page = await client.get(f"{hub.url}/home")
                    assert page.status_code == 200
                    found = sorted((await hub.user("ada"))["groups"])
                    if found == wanted:
                        break
                    await asyncio.sleep(0.5)
                return found

            assert await groups(["gpu-users"]) == ["gpu-users"]
            with as_admin(own_slapd) as connection:
                connection.modify(
                    f"cn=portal-admins,{own_slapd.groups_dn}",
                    {"member": [(ldap3.MODIFY_ADD, [f"uid=ada,{own_slapd.people_dn}"])]},
                )
            wanted = ["gpu-users", "portal-admins"]
            assert await groups(wanted) == wanted
            assert (await hub.user("ada"))["admin"] is True
            own_slapd.stop()
            await asyncio.sleep(1.2)
            assert (await client.get(f"{hub.url}/home")).status_code == 200
            assert sorted((await hub.user("ada"))["groups"]) == wanted
            own_slapd.start()
            with as_admin(own_slapd) as connection:
                connection.delete(f"uid=ada,{own_slapd.people_dn}")
            for _ in range(20):
                await asyncio.sleep(0.5)
                page = await client.get(f"{hub.url}/home")
                if page.status_code == 302:
                    break
            assert "/hub/login" in page.headers["location"]
        assert own_slapd.bind_password_file.read_text().strip() not in hub.log_file.read_text()


async def test_a_hanging_directory_is_said_on_the_login_page(
    own_slapd: Slapd, tmp_path: Path
) -> None:
    """slapd is stopped with SIGSTOP: connections are taken, nothing is answered."""
    (tmp_path / "hub").mkdir()
    settings = settings_for(own_slapd) | {"receive_timeout": 2, "login_timeout": 6.0}
    with hub_for(tmp_path / "hub", settings) as hub:
        async with browser() as ada, browser() as stranger:
            assert (await send_form(ada, hub, "ada", PASSWORD)).status_code == 302
            assert own_slapd.pid
            os.kill(own_slapd.pid, signal.SIGSTOP)
            try:
                login = asyncio.create_task(send_form(stranger, hub, "grace", PASSWORD))
                times: list[float] = []
                while not login.done():
                    start = awake()
                    page = await ada.get(f"{hub.url}/home")
                    times.append(awake() - start)
                    assert page.status_code == 200
                    await asyncio.sleep(0.1)
                answer = await login
            finally:
                os.kill(own_slapd.pid, signal.SIGCONT)
            slowest = max(times)
            print(f"{len(times)} pages while the directory hung; the slowest: {slowest:.3f} s")
            # The login and each refresh hung for longer; the goal for a page is 0.5 s, and the
            # slowest one gets some room for a busy machine.
            assert len(times) > 3
            assert statistics.median(times) < 0.5
            assert slowest < 2
            assert answer.status_code == 503
            assert "The directory does not answer" in answer.text
            assert "Invalid username or password" not in answer.text
            assert 'name="password"' in answer.text and 'value="grace"' in answer.text
            again = await send_form(stranger, hub, "grace", PASSWORD)
            assert again.status_code == 302  # it answers again, and is asked again


def test_the_hub_does_not_start_with_verification_off(slapd: Slapd, tmp_path: Path) -> None:
    hub = Hub(tmp_path, settings_for(slapd) | {"verify_certificates": False})
    try:
        assert hub.process.wait(60) != 0
    finally:
        hub.stop()
    assert "insecure_allow_unverified_servers = True" in hub.log_file.read_text()
