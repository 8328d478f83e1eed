"""Pictures and tables of points: from their own job, to those who see the run, never active."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from session_endpoints import of_server, parts_on, person, served

from portal.models.session.run import Run
from portal.models.session.run_logged import LARGEST
from portal.store import Store
from portal.work.run.endpoints import logged, reports
from portal.work.run.tables.logged import RunLoggedTable
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.runs import RunTable
from portal.work.run.tables.shares import RunShareTable

ID = "5e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162"
SERVER = "run-5e2f3c1a0b7d4c8e9a6f"
TOKENS = {
    "run": of_server("ada", SERVER),
    "session": of_server("ada"),
    "ada": person("ada"),
    "barbara": person("barbara"),
}
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\x80\0\0\x01\xe0" + b"x" * 50
JPEG = b"\xff\xd8\xff" + b"y" * 50
TABLE = [["", "cat"], ["dog", 7], ["<b>", None]]
POINT = f"runs/{ID}/points/2"


SIDE = (60_000).to_bytes(4, "big")
EXIF = b"\xff\xe1\0\x0c\xff\xc0\0\x11\x08\0\x10\0\x10\0"  # a small picture within a JPEG's
# Pictures of 3.6 thousand million pixels: a browser that shows one has no memory left.
BOMBS = [
    PNG[:16] + SIDE + SIDE,
    b"\xff\xd8\xff\xc2\0\x11\x08\xea\x60\xea\x60" + b"\0" * 20,
    b"\xff\xd8" + EXIF + b"\xff\xff\xc0\0\x11\x08\xea\x60\xea\x60" + b"\0" * 20,
]


def text(content: bytes) -> str:
    return base64.b64encode(content).decode()


class Site:
    """The endpoints on loopback, with a run of ada's."""

    def __init__(self, client: httpx.AsyncClient, store: Store) -> None:
        self.client, self.store = client, store

    async def get(self, path: str, token: str = "ada") -> httpx.Response:
        return await self.client.get(path, headers={"Authorization": f"token {token}"})

    async def send(self, token: str = "run", **more: Any) -> httpx.Response:
        about = {name: more.pop(name) for name in ("point", "attempt") if name in more}
        given = {"images": {"loss curve": text(PNG)}, "tables": {"t": TABLE}, **more}
        body = {"point": 2, **about, "logged": given}
        headers = {"Authorization": f"token {token}", "Content-Type": "application/json"}
        content = json.dumps(body)
        return await self.client.post("session/points/logged", content=content, headers=headers)


@pytest.fixture
async def site(store: Store) -> AsyncIterator[Site]:
    run = Run(
        id=ID,
        name="rates",
        source="work/train.ipynb",
        folder="/home/ada/projects/runs/rates",
        points=5,
        user="ada",
        server=SERVER,
        environment="torch",
        created_at=time.time(),
    )
    await store.table(RunTable).add_run(run)
    parts = parts_on(store, dashboard=SimpleNamespace(view=None))
    kinds = (*reports.ENDPOINTS, *logged.ENDPOINTS)
    async with served(kinds, parts, TOKENS.get, logins=True) as client:
        yield Site(client, store)


async def test_what_a_point_has_logged_is_shown(site: Site) -> None:
    assert (await site.get(f"{POINT}/logged")).json() == {"images": [], "tables": {}}
    answer = await site.send()
    assert (answer.status_code, answer.json()) == (200, {"taken": 2})
    shown = (await site.get(f"{POINT}/logged")).json()
    assert shown["tables"] == {"t": TABLE}
    assert [image["name"] for image in shown["images"]] == ["loss curve"]
    assert (await site.get(f"runs/{ID}/points/1/logged")).json()["images"] == []
    await site.send(images={"loss curve": text(JPEG)}, tables={})
    again = (await site.get(f"{POINT}/logged")).json()
    assert again["tables"] == {}
    assert again["images"][0]["digest"] != shown["images"][0]["digest"], "a browser asks again"


@pytest.mark.parametrize(("content", "kind"), [(PNG, "image/png"), (JPEG, "image/jpeg")])
async def test_a_picture_is_nothing_else(site: Site, content: bytes, kind: str) -> None:
    await site.send(images={"a² (1)": text(content)})
    answer = await site.get(f"{POINT}/images/a%C2%B2%20(1)?digest=1")
    assert (answer.status_code, answer.content) == (200, content)
    assert answer.headers["Content-Type"] == kind
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert (await site.get(f"{POINT}/images/other")).status_code == 404


@pytest.mark.parametrize(
    "more",
    [
        {"images": {"plot": text(b"<svg onload='x()'/>")}},
        {"images": {"plot": text(b"<html>" + PNG)}},
        {"images": {"plot": "no base 64"}},
        {"images": {"plot": text(PNG + b"x" * 1024 * 1024)}},
        {"images": {"../plot": text(PNG)}},
        {"images": {"plot\n": text(PNG)}},
        {"images": {"pl\u200dot": text(PNG)}},
        *({"images": {"plot": text(bomb)}} for bomb in BOMBS),
        {"images": {f"p{number}": text(PNG) for number in range(13)}},
        {"tables": {f"t{number}": TABLE for number in range(13)}},
        {"tables": {"t": [["a"]] * 502}},
        {"tables": {"t": [["a"] * 51]}},
        {"tables": {"t": [["a" * 201]]}},
        {"tables": {"t": [["a\nb"]]}},
        {"tables": {"t": [[{"a": 1}]]}},
        {"point": 5},
        {"attempt": 0},
    ],
)
async def test_what_is_refused(site: Site, more: Any) -> None:
    assert (await site.send(**more)).status_code == 400
    assert (await site.get(f"{POINT}/logged")).json() == {"images": [], "tables": {}}


async def test_a_request_is_bounded(site: Site) -> None:
    answer = await site.send(tables={"t": [["a" * LARGEST]]})
    assert answer.json()["error"]["message"] == f"The body is longer than {LARGEST} bytes."


async def test_only_the_job_sends_and_only_who_sees_the_run_reads(site: Site) -> None:
    assert (await site.send("session")).status_code == 403
    await site.send()
    for path in ("logged", "images/loss%20curve"):
        shared = f"{POINT}/{path}?owner=ada"
        assert (await site.get(shared, "barbara")).status_code == 404
        await site.store.table(RunShareTable).share("ada", ID, "barbara")
        assert (await site.get(shared, "barbara")).status_code == 200
        await site.store.table(RunShareTable).unshare("ada", ID, "barbara")


async def test_a_later_attempt_replaces_an_earlier_one(site: Site) -> None:
    await site.send(attempt=2, tables={"second": TABLE})
    await site.send(attempt=1, tables={"first": TABLE})
    assert list((await site.get(f"{POINT}/logged")).json()["tables"]) == ["second"]


async def test_it_ends_with_its_run(site: Site) -> None:
    await site.send()
    await site.store.table(RunTable).end("ada", ID, 1.0)
    assert await site.store.table(RunPointTable).prune(2.0) == 1
    assert not (await site.store.table(RunLoggedTable).get("ada", ID, 2)).images


async def test_a_run_that_has_ended_takes_nothing(site: Site) -> None:
    await site.store.table(RunTable).end("ada", ID, 1.0)
    assert (await site.send()).status_code == 409
