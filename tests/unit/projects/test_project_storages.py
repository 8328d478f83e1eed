"""Storages of projects through the API, with a real database. With a real server of S3:
tests/integration/kernels/test_portal_s3.py."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from session_endpoints import of_server
from sqlalchemy import select
from test_projects_api import PEOPLE, Site, running

from portal.images.registry.credentials import Secrets
from portal.projects.storage.endpoints import MOST
from portal.projects.storage.tables import ProjectStorageTable, project_storages

PATH = "projects/proteins/storages"
KEY = "the-secret-key"
NEW: dict[str, Any] = {
    "name": "results",
    "endpoint": "https://s3.example.org:9000/",
    "region": "eu-1",
    "access_key": "AKPROTEINS",
    "secret_key": KEY,
}


@pytest.fixture
async def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    async with running(tmp_path) as made:
        secrets = Secrets(key_file=str(tmp_path / "key"))
        monkeypatch.setattr(made.parts.registries, "secrets", secrets)
        await made.approved()
        for who in ("olga", "mike", "rita", "eve"):
            await made.session(who, job_id="1")
            monkeypatch.setitem(PEOPLE, f"session-{who}", of_server(who, "work"))
        yield made


async def test_roles_and_routes(site: Site) -> None:
    may = {
        ("GET", PATH): {"olga", "mike"},
        ("POST", PATH): {"olga"},
        ("DELETE", f"{PATH}?name=results"): {"olga"},
    }
    deviations = []
    for (method, path), allowed in may.items():
        for who in ("eve", "rita", "mike", "grace", "olga"):
            answer = await site.ask(who, method, path, NEW if method == "POST" else None)
            # At the GET there is none yet, and after the only DELETE that is allowed neither.
            if (answer.status_code < 300) != (who in allowed):
                deviations.append((who, method, answer.status_code))
    assert deviations == []
    said = await site.audit()
    assert ("olga", "set-project-storage", "project proteins", "done") in said
    assert ("olga", "remove-project-storage", "project proteins", "done") in said
    assert ("mike", "denied", "project proteins", "refused") in said


async def test_the_key_is_encrypted_and_shown_to_sessions_only(site: Site) -> None:
    made = await site.ask("olga", "POST", PATH, NEW)
    shown = await site.ask("mike", "GET", PATH)
    assert KEY not in made.text and KEY not in shown.text
    (item,) = shown.json()["items"]
    assert item["endpoint"] == "https://s3.example.org:9000" and item["added_by"] == "olga"
    (row,) = await site.parts.store.table(ProjectStorageTable)._rows_of(select(project_storages))
    assert KEY not in repr(row)
    (stored,) = await site.parts.store.table(ProjectStorageTable).of_project("proteins")
    assert stored.secret not in repr(stored)
    for who in ("olga", "mike"):
        answer = await site.ask(f"session-{who}", "GET", "session/storages")
        assert answer.json()["items"] == [NEW | {"endpoint": "https://s3.example.org:9000"}]
        assert answer.headers["Cache-Control"] == "no-store"
    readers = await site.refused(403, "session-rita", "GET", "session/storages")
    assert readers == "Readers of a project have no keys of its storages."
    assert "no project" in await site.refused(404, "session-eve", "GET", "session/storages")
    # No person's token gets it, and who leaves loses it.
    assert (await site.ask("olga", "GET", "session/storages")).status_code == 403
    await site.done("mike", "POST", "projects/proteins/leave")
    assert "no project" in await site.refused(404, "session-mike", "GET", "session/storages")


async def test_a_lost_key_is_said(site: Site) -> None:
    await site.done("olga", "POST", PATH, NEW)
    Path(site.parts.registries.secrets.key_file).unlink()
    said = await site.refused(400, "session-olga", "GET", "session/storages")
    assert "enter the secret key of the storage 'results' again" in said and KEY not in said


async def test_storages_are_replaced_and_bounded(site: Site) -> None:
    for number in range(MOST):
        await site.done("olga", "POST", PATH, NEW | {"name": f"s{number}"})
    await site.done("olga", "POST", PATH, NEW | {"name": "s1", "access_key": "OTHER"})
    kept = {
        each["name"]: each["access_key"] for each in (await site.done("olga", "GET", PATH))["items"]
    }
    assert len(kept) == MOST and kept["s1"] == "OTHER"
    said = await site.refused(400, "olga", "POST", PATH, NEW | {"name": "one-more"})
    assert said == f"A project can have at most {MOST} storages."
    gone = await site.refused(404, "olga", "DELETE", f"{PATH}?name=nothing")
    assert gone == "The project has no storage 'nothing'."


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("endpoint", "http://s3.example.org"),
        ("endpoint", "https://user:word@s3.example.org"),
        ("endpoint", "https://s3.example.org/path"),
        ("endpoint", "https://s3.example.org?x=1"),
        ("endpoint", "https://s3.example.org:99999"),
        ("endpoint", "ftp://s3.example.org"),
        ("endpoint", "https://"),
        ("endpoint", "https://a b"),
        ("endpoint", "https://s3.example.org\nRCLONE_X=1"),
        ("name", "Results"),
        ("name", "a:b"),
        ("name", "../x"),
        ("name", ""),
        ("region", "eu\n"),
        ("access_key", "a b"),
        ("secret_key", "a\nb"),
        ("secret_key", ""),
        ("secret_key", "k" * 1001),
    ],
)
async def test_what_no_storage_can_have(site: Site, field: str, value: str) -> None:
    answer = await site.ask("olga", "POST", PATH, NEW | {field: value})
    assert answer.status_code == 400 and answer.json()["error"]["field"] == field
    assert KEY not in answer.text
    assert (await site.done("olga", "GET", PATH))["items"] == []
