"""What a user can go to by name: the rules of the search, and that nobody finds what is others'."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from machine import patience
from session_endpoints import of_server, parts_on, person, served
from session_records import recorded
from stored_courses import a_course, stored

from portal.assembly import Services
from portal.catalog import EnvironmentCatalog
from portal.handlers.destinations import endpoint
from portal.handlers.destinations.site import site_destinations
from portal.handlers.routes import routes
from portal.models.cluster.dashboard import NodeItem
from portal.models.course.course import CourseMember
from portal.models.destination import Destination, best
from portal.models.person import Person
from portal.models.scope import COURSES_MANAGE, MEANINGS, SESSIONS_READ
from portal.models.session.run import Run
from portal.models.session.session import SessionState
from portal.models.space import Role
from portal.navigation import groups_for
from portal.store import Store
from portal.work.run.tables.runs import RunTable
from portal.work.run.tables.shares import RunShareTable

PREFIX = "/services/portal/"
RUN = "5e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162"
TOKENS = {
    "ada": person("ada"),
    "barbara": person("barbara"),
    "grace": person("grace", SESSIONS_READ, COURSES_MANAGE),
    "session": of_server("ada"),
}


def page(title: str, detail: str = "") -> Destination:
    return Destination(kind="page", title=title, detail=detail, url="/")


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        ("", ["All usage", "Usage", "Users"]),
        ("us", ["Usage", "Users", "All usage"]),
        ("USAGE", ["Usage", "All usage"]),
        ("admin us", ["All usage", "Users"]),
        ("sage", ["All usage", "Usage"]),
        ("%", []),
        ("users nothing", []),
    ],
)
def test_what_begins_with_the_text_comes_first(text: str, titles: list[str]) -> None:
    pages = [page("All usage", "Admin"), page("Usage"), page("Users", "Admin")]
    assert [found.title for found in best(pages, text, 8)] == titles
    assert len(best(pages, text, 1)) <= 1


def everything() -> list[Destination]:
    admin = Person(name="grace", scopes=frozenset(MEANINGS))
    return list(site_destinations(admin, (), "/", PREFIX))


def test_every_address_is_one() -> None:
    addresses = [re.compile(route[0] + "$") for route in routes(PREFIX)]
    for destination in everything():
        path = destination.url.partition("?")[0]
        known = any(address.match(path) for address in addresses if "api" not in address.pattern)
        assert known or path in ("/hub/home", "/hub/spawn", "/hub/token", "/hub/logout"), path


def test_every_entry_of_the_navigation_is_found() -> None:
    groups = groups_for(Person(name="grace"), list(MEANINGS), hub="/hub/", service=PREFIX)
    entries = {(link.label, link.href) for _, links in groups for link in links}
    assert {"Sessions", "Catalog", "Users", "All usage", "Courses"} <= {
        label for label, _ in entries
    }
    assert entries <= {(destination.title, destination.url) for destination in everything()}


@pytest.mark.parametrize("needed", ["Users", "Audit log", "Curate", "All usage"])
def test_pages_of_admins_are_for_admins(needed: str) -> None:
    own = {entry.title for entry in site_destinations(Person(name="ada"), (), "/", PREFIX)}
    assert "Sessions" in own
    assert needed not in own


class Site:
    def __init__(self, client: httpx.AsyncClient, parts: Services) -> None:
        self.client, self.parts, self.store = client, parts, parts.store

    async def answer(self, text: str, who: str = "ada") -> Any:
        headers = {"Authorization": f"token {who}"}
        return await self.client.get("destinations", params={"text": text}, headers=headers)

    async def find(self, text: str, who: str = "ada") -> list[tuple[str, str, str]]:
        answer = await self.answer(text, who)
        assert answer.status_code == 200, answer.text
        return [(item["kind"], item["title"], item["url"]) for item in answer.json()["items"]]


async def filled(store: Store) -> Any:
    """Store what ada has, all of it with "secret" in its name; return her living session."""
    living = recorded(
        id="s1", user="ada", environment="lab", environment_title="Secret lab", server="own",
        state=SessionState.RUNNING, submitted_at=2.0, job_id="71", nodes=("gpu01",),
    )  # fmt: skip
    over = {"id": "s0", "state": SessionState.ENDED, "submitted_at": 1.0, "server": ""}
    kernel = {"id": "s2", "server": "kernel-5e2f3c1a", "work": "kernel"}
    await store.sessions.save(
        living, living.model_copy(update=over), living.model_copy(update=kernel)
    )
    run = Run(
        user="ada", id=RUN, server="run-5e2f", name="secret-sweep", environment="lab",
        source="/a.py", folder="/f", points=1, at_once=1, created_at=1.0,
    )  # fmt: skip
    await store.table(RunTable).add_run(run)
    course = stored(a_course(name="secret-101", title="Secret 101"))
    await store.courses.add_space(
        course,
        [CourseMember(course="secret-101", person="ada", role=Role.INSTRUCTOR, added_by="ada")],
    )
    return living


@pytest.fixture
async def site(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Site]:
    monkeypatch.setattr(endpoint, "_PATIENCE", 60)  # a busy machine leaves nothing out
    files = tmp_path / "environments"
    files.mkdir()
    words = "name: {0}\ntitle: {1}\nkind: venv\npath: /opt/{0}\n{2}\n"
    (files / "torch.yaml").write_text(words.format("torch", "PyTorch", ""))
    (files / "hidden.yaml").write_text(words.format("hidden", "Secret tools", "groups: [x]"))
    living = await filled(store)
    node = NodeItem(name="gpu01", state="IDLE", words="idle", usable=True)
    view = SimpleNamespace(nodes={"gpu01": node}, sessions={"71": living})
    parts = parts_on(
        store,
        catalog=EnvironmentCatalog(directory=str(files)),
        dashboard=SimpleNamespace(view=view),
    )
    async with served(endpoint.ENDPOINTS, parts, TOKENS.get, logins=True) as client:
        yield Site(client, parts)


async def test_one_finds_ones_own(site: Site) -> None:
    assert await site.find("secret") == [
        ("action", "Open Secret lab", "/user/ada/own/"),
        ("session", "Secret lab", f"{PREFIX}sessions/s1"),
        ("session", "Secret lab", f"{PREFIX}sessions/s0"),
        ("course", "Secret 101", f"{PREFIX}courses/secret-101"),
        ("run", "secret-sweep", f"{PREFIX}runs/{RUN}"),
    ]
    assert ("session", "Secret lab", f"{PREFIX}sessions/s1") in await site.find("lab gpu01")
    assert await site.find("gpu01 node") == []
    assert ("node", "gpu01", f"{PREFIX}?text=gpu01") in await site.find("gpu01")
    found = await site.find("torch")
    assert found == [("environment", "PyTorch", f"{PREFIX}catalog/environments/torch")]


async def test_without_a_text_pages_actions_and_what_is_newest(site: Site) -> None:
    found = await site.find("  ")
    kinds = {kind for kind, _, _ in found}
    assert kinds == {"page", "action", "session", "run", "course"}
    assert {"Sessions", "Runs", "Courses"} <= {title for _, title, _ in found}
    assert [url for kind, _, url in found if kind == "session"] == [f"{PREFIX}sessions/s1"]


async def test_a_page_that_a_feature_knows_too_is_found_once(site: Site) -> None:
    pages = [title for kind, title, _ in await site.find("", "grace") if kind == "page"]
    assert pages.count("Courses") == pages.count("Runs") == 1


@pytest.mark.parametrize("text", ["secret", "SECRET", "ada", "sweep", "71", "own", "101", "%", "_"])
async def test_a_stranger_finds_nothing_of_others(site: Site, text: str) -> None:
    answer = await site.answer(text, "barbara")
    assert answer.status_code == 200
    kinds = {item["kind"] for item in answer.json()["items"]}
    assert kinds <= {"page", "action"}
    assert "secret" not in answer.text.casefold()
    assert RUN not in answer.text


@pytest.mark.parametrize("who", ["session", "nobody"])
async def test_nothing_without_a_login_of_a_person(site: Site, who: str) -> None:
    answer = await site.answer("secret", who)
    assert answer.status_code == 403
    assert "items" not in answer.text


async def test_who_may_see_others_finds_what_lives(site: Site) -> None:
    found = await site.find("secret", "grace")
    assert ("session", "Secret lab", f"{PREFIX}sessions/s1") in found
    assert ("course", "Secret 101", f"{PREFIX}courses/secret-101") in found
    assert not {kind for kind, _, _ in found} & {"run", "environment", "action"}
    assert all("s0" not in url for _, _, url in found)


async def test_a_shared_run_is_found_with_its_owner(site: Site) -> None:
    await site.store.table(RunShareTable).share("ada", RUN, "barbara")
    assert await site.find("sweep", "barbara") == [
        ("run", "secret-sweep", f"{PREFIX}runs/{RUN}?owner=ada")
    ]


async def test_no_more_than_eight_of_a_kind(site: Site) -> None:
    records = [
        recorded(id=f"x{n}", user="ada", environment="many", submitted_at=float(n), job_id=str(n))
        for n in range(30)
    ]
    await site.store.sessions.save(*records)
    assert len(await site.find("many")) == 8
    assert (await site.answer("x" * 101)).status_code == 400


async def test_a_source_that_is_slow_is_left_out(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(*given: Any, **named: Any) -> Any:
        await asyncio.sleep(60)

    assert (await site.answer("secret")).json()["complete"]
    monkeypatch.setattr(endpoint, "_PATIENCE", patience(1))
    monkeypatch.setattr(site.store.sessions, "find", hang)
    answer = (await site.answer("secret")).json()
    assert not answer["complete"]
    assert {item["kind"] for item in answer["items"]} == {"course", "run"}
