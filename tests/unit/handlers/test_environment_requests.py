"""Requests for environments and favourites, through the API with a real database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from session_endpoints import parts_on, person, served

from portal.assembly import Services
from portal.catalog import EnvironmentCatalog
from portal.handlers.catalog import favourites, requests
from portal.handlers.catalog.requests import MOST_OPEN
from portal.models.scope import ENVIRONMENTS_MANAGE
from portal.store import Store

REQUESTS = "environment-requests"
ASKED = {"source": "docker://nvcr.io/nvidia/jax:25.10-py3", "text": "JAX for the summer school."}


class Site:
    """The endpoints on loopback, with a catalog of two environments."""

    def __init__(self, client: httpx.AsyncClient, parts: Services) -> None:
        self.client = client
        self.parts = parts

    async def ask(self, who: str, method: str, path: str, body: Any = None) -> httpx.Response:
        headers = {"Authorization": f"token {who}"}
        return await self.client.request(method, path, json=body, headers=headers)

    async def items(self, who: str, query: str = "") -> list[dict[str, Any]]:
        answer = await self.ask(who, "GET", f"{REQUESTS}{query}")
        assert answer.status_code == 200, answer.text
        return list(answer.json()["items"])

    async def audit(self) -> list[tuple[str, str, str, str]]:
        entries, _ = await self.parts.store.audit.find()
        return [(e.actor, e.action, e.target, str(e.outcome)) for e in entries]


@pytest.fixture
async def site(tmp_path: Path, store: Store) -> AsyncIterator[Site]:
    tokens = {
        "ada": person("ada"),
        "barbara": person("barbara"),
        "grace": person("grace", ENVIRONMENTS_MANAGE),
    }
    files = tmp_path / "environments"
    files.mkdir()
    words = "name: {0}\ntitle: {0}\nkind: venv\npath: /opt/{0}\ngroups: [{1}]\n"
    (files / "torch.yaml").write_text(words.format("torch", ""))
    (files / "secret.yaml").write_text(words.format("secret", "others"))
    parts = parts_on(store, catalog=EnvironmentCatalog(directory=str(files)))
    kinds = (*requests.ENDPOINTS, *favourites.ENDPOINTS)
    async with served(kinds, parts, tokens.get, logins=True) as client:
        yield Site(client, parts)


async def test_a_request_and_its_answer(site: Site) -> None:
    answer = await site.ask("ada", "POST", REQUESTS, ASKED)
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert (made["person"], made["state"]) == ("ada", "open")
    assert [one["id"] for one in await site.items("grace")] == [made["id"]]

    said = {"state": "done", "answer": "It is in the catalog.", "environment": "jax"}
    path = f"{REQUESTS}/{made['id']}/answer"
    assert (await site.ask("grace", "POST", path, said)).status_code == 200
    (mine,) = await site.items("ada")
    assert {name: mine[name] for name in said} == said
    assert mine["answered_by"] == "grace"

    again = await site.ask("grace", "POST", path, {"state": "declined", "answer": "No."})
    assert again.status_code == 409
    assert "already answered by grace" in again.json()["error"]["message"]
    assert await site.items("grace", "?state=open") == []
    target = f"environment request {made['id']}"
    assert await site.audit() == [
        ("grace", "answer-request", target, "failed"),
        ("grace", "answer-request", target, "done"),
        ("ada", "request-environment", target, "done"),
    ]


async def test_others_see_nothing_of_it(site: Site) -> None:
    made = (await site.ask("ada", "POST", REQUESTS, ASKED)).json()
    assert await site.items("barbara") == []
    assert await site.items("grace", "?mine=true") == []
    answer = await site.ask("barbara", "POST", f"{REQUESTS}/{made['id']}/answer", {"state": "done"})
    assert answer.status_code == 403
    (mine,) = await site.items("ada")
    assert mine["state"] == "open"


async def test_one_person_has_few_open_requests(site: Site) -> None:
    several = [site.ask("ada", "POST", REQUESTS, {"text": f"R {n}"}) for n in range(MOST_OPEN + 3)]
    answers = await asyncio.gather(*several)
    assert sorted(answer.status_code for answer in answers) == [201] * MOST_OPEN + [429] * 3
    assert len(await site.items("ada")) == MOST_OPEN
    assert (await site.ask("barbara", "POST", REQUESTS, {"text": "R"})).status_code == 201
    first = (await site.items("ada"))[-1]["id"]
    body = {"state": "declined", "answer": "We have it."}
    await site.ask("grace", "POST", f"{REQUESTS}/{first}/answer", body)
    assert (await site.ask("ada", "POST", REQUESTS, {"text": "one more"})).status_code == 201


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "describe what you need, or name an image"),
        ({"text": "   "}, "describe what you need, or name an image"),
        ({"source": "docker://x\nsecond line"}, "one line"),
        ({"text": "\u202eevil"}, "U+202E"),
        ({"text": "a" * 2001}, "2000"),
        ({"text": "x", "person": "grace"}, "'person' is not a known field"),
    ],
)
async def test_what_is_no_request(site: Site, body: dict[str, str], words: str) -> None:
    answer = await site.ask("ada", "POST", REQUESTS, body)
    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]
    assert await site.items("ada") == []


async def test_declined_without_a_word_and_a_request_that_is_not_there(site: Site) -> None:
    made = (await site.ask("ada", "POST", REQUESTS, ASKED)).json()
    path = f"{REQUESTS}/{made['id']}/answer"
    answer = await site.ask("grace", "POST", path, {"state": "declined"})
    assert "give a reason" in answer.json()["error"]["message"]
    assert (await site.ask("grace", "POST", path, {"state": "open"})).status_code == 400
    nobody = await site.ask("grace", "POST", f"{REQUESTS}/99/answer", {"state": "done"})
    assert nobody.status_code == 404


async def test_favourites_are_ones_own_and_of_what_one_may_see(site: Site) -> None:
    liked = site.parts.store.favourites.of_user
    for _ in range(2):  # once more changes nothing
        answer = await site.ask("ada", "PUT", "environments/torch/favourite")
        assert answer.status_code == 204, answer.text
    assert await liked("ada") == ["torch"]
    assert await liked("barbara") == []
    for name in ("secret", "nothing"):
        answer = await site.ask("ada", "PUT", f"environments/{name}/favourite")
        assert answer.status_code == 404
        assert answer.json()["error"]["message"] == (
            f"There is no environment '{name}' that you may use."
        )
    for _ in range(2):
        assert (await site.ask("ada", "DELETE", "environments/torch/favourite")).status_code == 204
    assert await liked("ada") == []
