"""Registries through the API, with a real database and a real registry."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import images
import pytest
from registry import Registry, registry
from session_endpoints import parts_on, person, served
from traitlets.config import Config, LoggingConfigurable

from portal.assembly import Services
from portal.catalog import EnvironmentCatalog
from portal.handlers.catalog import registries
from portal.models.scope import ENVIRONMENTS_MANAGE
from portal.store import Store

PASSWORD = "nvapi-a-key-that-nobody-sees"


class Site:
    """The endpoints on loopback."""

    def __init__(self, client: httpx.AsyncClient, parts: Services, place: Path) -> None:
        self.client = client
        self.parts, self.place = parts, place
        self.given: list[str] = []

    async def ask(
        self, method: str, path: str, body: Any = None, who: str = "grace"
    ) -> httpx.Response:
        headers = {"Authorization": f"token {who}"}
        answer = await self.client.request(method, path, json=body, headers=headers)
        self.given.append(answer.text)
        return answer

    async def refused(self, method: str, path: str, body: Any = None) -> str:
        answer = await self.ask(method, path, body)
        assert answer.status_code == 400, answer.text
        return str(answer.json()["error"]["message"])

    async def audit(self) -> list[str]:
        entries, _ = await self.parts.store.audit.find()
        return [f"{e.actor} {e.action} {e.target} {e.outcome}: {e.detail}" for e in entries]


@pytest.fixture(scope="module")
def closed_registry() -> Iterator[Registry]:
    with registry(tls=True, login=("$oauthtoken", PASSWORD)) as server:
        server.push("nvidia/pytorch", "25.10-py3", images.bare())
        yield server


@pytest.fixture
async def site(tmp_path: Path, store: Store) -> AsyncIterator[Site]:
    tokens = {"ada": person("ada"), "grace": person("grace", ENVIRONMENTS_MANAGE)}
    config = Config()
    config.Secrets.key_file = str(tmp_path / "key")
    config.Secrets.password_directory = str(tmp_path)
    catalog = EnvironmentCatalog(directory=str(tmp_path))
    parts = parts_on(store, catalog=catalog, parent=LoggingConfigurable(config=config))
    async with served(registries.ENDPOINTS, parts, tokens.get, logins=True) as client:
        yield Site(client, parts, tmp_path)


async def test_a_password_goes_in_and_never_comes_out(
    site: Site, closed_registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    host = closed_registry.host
    body = {
        "host": "nvcr.io",
        "username": "$oauthtoken",
        "password": PASSWORD,
        "mirror": host,
        "ca_file": str(closed_registry.ca_file),
    }
    answer = await site.ask("PUT", "registries/nvcr.io", body)
    assert answer.status_code == 200, answer.text
    item = answer.json()
    assert (item["host"], item["has_password"], item["author"]) == ("nvcr.io", True, "grace")
    assert (await site.ask("GET", "registries")).json()["items"] == [item]
    key = site.place / "key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    said = (await site.ask("POST", "registries/nvcr.io/check", {})).json()["message"]
    assert "accepts the password of '$oauthtoken'" in said
    image = {"source": "docker://nvcr.io/nvidia/pytorch:25.10-py3"}
    said = (await site.ask("POST", "registries/nvcr.io/check", image)).json()["message"]
    assert "is sha256:" in said
    # Changed without the password, it stays; and what was refused does not tell it either.
    del body["password"]
    assert (await site.ask("PUT", "registries/nvcr.io", body)).json()["has_password"]
    await site.refused("PUT", "registries/nvcr.io", {"password": PASSWORD + "\n"})
    await site.refused("PUT", "registries/nvcr.io", {"password": [PASSWORD]})
    everything = " ".join([*site.given, *await site.audit(), caplog.text])
    assert PASSWORD not in everything
    database = site.place / "portal.sqlite"
    for file in (database, database.with_name("portal.sqlite-wal"), key):
        assert not file.exists() or PASSWORD.encode() not in file.read_bytes()
    assert any("set-registry registry nvcr.io done" in line for line in await site.audit())


async def test_a_kept_password_is_not_sent_elsewhere(site: Site) -> None:
    body = {"username": "grace", "password": PASSWORD, "mirror": "mirror.example.org"}
    assert (await site.ask("PUT", "registries/nvcr.io", body)).status_code == 200
    for change in (
        {"mirror": "thief.example.org"},
        {"mirror": "mirror.example.org", "insecure": True},
    ):
        said = await site.refused("PUT", "registries/nvcr.io", {"username": "grace"} | change)
        assert "password of 'nvcr.io' again" in said
    answer = await site.ask("PUT", "registries/nvcr.io", {"username": "grace", "password": ""})
    assert not answer.json()["has_password"]


async def test_only_who_curates_may(site: Site) -> None:
    for method, path, body in (
        ("GET", "registries", None),
        ("PUT", "registries/nvcr.io", {}),
        ("DELETE", "registries/nvcr.io", None),
        ("POST", "registries/nvcr.io/check", {}),
    ):
        assert (await site.ask(method, path, body, who="ada")).status_code == 403
    assert len([line for line in await site.audit() if line.startswith("ada denied")]) == 4


async def test_bad_input_gets_a_sentence(site: Site) -> None:
    put = "registries/nvcr.io"
    assert "the URL has" in await site.refused("PUT", put, {"host": "ghcr.io"})
    assert "user name" in await site.refused("PUT", put, {"password": "x"})
    assert "cannot read a certificate" in await site.refused("PUT", put, {"ca_file": "/etc/shadow"})
    os.mkfifo(site.place / "pipe")
    for endless in ("/dev/zero", str(site.place / "pipe")):
        assert "cannot read a certificate" in await site.refused("PUT", put, {"ca_file": endless})
    assert "is not in" in await site.refused("PUT", put, {"password_file": "/etc/shadow"})
    secret = site.place / "nvcr"
    secret.write_text("one\n")
    secret.chmod(0o644)
    body = {"username": "u", "password_file": str(secret)}
    assert "chmod 0600" in await site.refused("PUT", put, body)
    secret.chmod(0o600)
    assert "is not the password" in await site.refused("PUT", put, body | {"password": "x"})
    body["password"] = "one"
    assert (await site.ask("PUT", put, body)).json()["password_file"] == str(secret)
    for wrong in ("-a", "nv cr.io", "a" * 300, "nvcr.io:123456"):
        assert (await site.ask("PUT", f"registries/{wrong}", {})).status_code == 404
    assert (await site.ask("PUT", "registries/NVCR.IO", body)).json()["host"] == "nvcr.io"
    said = await site.refused("POST", f"{put}/check", {"source": "docker://ghcr.io/a/b:1"})
    assert "is not an image of 'nvcr.io'" in said
    assert (await site.ask("DELETE", put)).status_code == 204
    assert (await site.ask("DELETE", put)).status_code == 404


async def test_a_lost_or_changed_key_is_said(site: Site) -> None:
    put = "registries/nvcr.io"
    body = {"username": "u", "password": PASSWORD, "mirror": "127.0.0.1:1"}
    assert (await site.ask("PUT", put, body)).status_code == 200
    key = site.place / "key"
    kept = key.read_bytes()
    key.unlink()
    assert "is missing: enter the password" in await site.refused("POST", f"{put}/check")
    assert (await site.ask("PUT", "registries/ghcr.io", body)).status_code == 200  # a new key
    assert "has changed since" in await site.refused("POST", f"{put}/check")
    key.write_bytes(kept)
    key.chmod(0o640)
    answer = await site.ask("POST", f"{put}/check")
    assert answer.status_code == 500 and "Other users can read" in answer.text
    key.chmod(0o600)
    assert (await site.ask("POST", f"{put}/check")).status_code == 503  # nobody is at port 1
