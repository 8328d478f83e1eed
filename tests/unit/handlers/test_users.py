"""The API's users: who may list and change them, and what the audit log has of it."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
import pytest
from fake_hub import FakeHub
from session_endpoints import of_server, parts_on, person, said, served
from session_records import recorded

from portal.errors import Conflict, NotAllowed
from portal.handlers.admin import users
from portal.handlers.sessions import actions
from portal.models.scope import JOBS_MANAGE, USERS_MANAGE
from portal.models.session.session import SessionState
from portal.models.session.stop_reason import StopCode, StopReason
from portal.store import Store

TOKENS = {
    "grace": person("grace", USERS_MANAGE, JOBS_MANAGE),
    "ada": person("ada"),
    "session": of_server("grace"),
}


class UsersHub(FakeHub):
    """Hub with ``total`` users, whose changes by users other than grace it refuses."""

    total = 1234

    def __init__(self) -> None:
        super().__init__()
        self.queries: list[Mapping[str, Any]] = []
        self.changes: list[tuple[str, Any]] = []

    async def users(self, query: Mapping[str, Any], *, on_behalf_of: str) -> dict[str, Any]:
        self.answer()
        self.queries.append(query)
        numbers = range(self.total)[query["offset"] :][: query["limit"]]
        return {
            "users": [user(f"user{number:04}") for number in numbers],
            "total": self.total,
            "may": ["admin:users"],
        }

    async def set_admin(self, name: str, admin: bool, *, on_behalf_of: str) -> None:
        if name == "hopper":
            raise NotAllowed("Only an admin of the Hub can do this.")
        self.changes.append((name, admin))

    async def delete_user(self, name: str, *, on_behalf_of: str) -> None:
        if name == "linus":
            raise Conflict("linus has sessions.")
        self.changes.append((name, None))


def user(name: str) -> dict[str, Any]:
    return {
        "name": name, "admin": False, "groups": ["physics"], "roles": ["user"],
        "created_at": 1.0, "seen_at": None, "sessions": 2,
    }  # fmt: skip


class Site:
    def __init__(self, client: httpx.AsyncClient, store: Store, hub: UsersHub) -> None:
        self.client, self.store, self.hub = client, store, hub

    async def ask(self, method: str, path: str, who: str = "grace", body: Any = None) -> Any:
        headers = {"Authorization": f"token {who}"}
        return await self.client.request(method, path, json=body, headers=headers)

    async def audit(self) -> list[tuple[str, ...]]:
        entries, _ = await self.store.audit.find()
        return [(e.actor, e.action, e.target, e.owner, str(e.outcome)) for e in entries]


@pytest.fixture
async def site(store: Store) -> AsyncIterator[Site]:
    hub = UsersHub()
    parts = parts_on(store, hub=hub)
    kinds = (*users.ENDPOINTS, *actions.ENDPOINTS)
    async with served(kinds, parts, TOKENS.get, logins=True) as client:
        yield Site(client, store, hub)


async def test_users_come_in_pages(site: Site) -> None:
    page = (await site.ask("GET", "users?limit=2&text=er&active=true&sort=-created")).json()
    assert [item["name"] for item in page["items"]] == ["user0000", "user0001"]
    assert (page["total"], page["may"]) == (1234, ["admin:users"])
    asked = {"text": "er", "active": 1, "sort": "-created", "offset": 0, "limit": 2}
    assert site.hub.queries == [asked]
    following = (await site.ask("GET", f"users?limit=2&after={page['next']}")).json()
    assert following["items"][0]["name"] == "user0002"


async def test_all_users_as_a_file(site: Site) -> None:
    answer = await site.ask("GET", "users.csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(rows) == 1234
    assert rows[-1]["name"] == "user1233"
    assert [query["offset"] for query in site.hub.queries] == [0, 500, 1000]


@pytest.mark.parametrize("who", ["ada", "session", "nobody"])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "users", None),
        ("GET", "users.csv", None),
        ("PATCH", "users/ada", {"admin": True}),
        ("DELETE", "users/barbara", None),
    ],
)
async def test_others_neither_see_nor_change_users(
    site: Site, who: str, method: str, path: str, body: Any
) -> None:
    answer = await site.ask(method, path, who, body)
    assert answer.status_code == 403, answer.text
    assert "user0000" not in answer.text
    assert site.hub.queries == site.hub.changes == []
    if who == "ada":
        assert await site.audit() == [("ada", "denied", f"api/v1/{path}", "", "refused")]


@pytest.mark.parametrize(
    ("method", "body", "action", "change", "words"),
    [
        ("PATCH", {"admin": True}, "make-admin", True, "ada is now an admin."),
        ("PATCH", {"admin": False}, "remove-admin", False, "ada is no longer an admin."),
        ("DELETE", None, "delete-user", None, "ada is deleted."),
    ],
)
async def test_changes_are_in_the_audit_log(
    site: Site, method: str, body: Any, action: str, change: Any, words: str
) -> None:
    answer = await site.ask(method, "users/ada", body=body)
    assert (answer.status_code, said(answer)) == (200, words)
    assert site.hub.changes == [("ada", change)]
    assert await site.audit() == [("grace", action, "user ada", "ada", "done")]


async def test_what_the_hub_refuses_is_there_too(site: Site) -> None:
    assert (await site.ask("PATCH", "users/hopper", body={"admin": True})).status_code == 403
    assert (await site.ask("DELETE", "users/linus")).status_code == 409
    assert [line[1:] for line in await site.audit()] == [
        ("delete-user", "user linus", "linus", "failed"),
        ("make-admin", "user hopper", "hopper", "refused"),
    ]


@pytest.mark.parametrize("body", [{}, {"admin": "maybe"}, {"admin": True, "name": "root"}, []])
async def test_a_change_is_well_formed(site: Site, body: Any) -> None:
    assert (await site.ask("PATCH", "users/ada", body=body)).status_code == 400
    assert site.hub.changes == []


@pytest.mark.parametrize(
    ("who", "reason"),
    [
        ("grace", StopReason(code=StopCode.STOPPED, words="gpu01 is repaired")),
        ("ada", "ada"),
    ],
)
async def test_the_owner_is_told_why_another_user_stops_a_session(
    site: Site, who: str, reason: Any
) -> None:
    record = recorded(id="s1", user="ada", state=SessionState.RUNNING, submitted_at=1.0)
    await site.store.sessions.save(record)
    body = {"reason": "gpu01 is repaired"}
    answer = await site.ask("POST", "sessions/s1/stop", who, body)
    assert answer.status_code == 200, answer.text
    assert site.hub.stopped == [("ada", record.server, reason)]
