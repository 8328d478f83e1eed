"""Users that the Hub knows, as its API gives them to the service, and what it refuses to change."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from jupyterhub import orm, roles
from sqlalchemy.orm import Session
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application

from portal.hubapi import FOR_HEADER
from spawners.api.users import UserHandler, UsersHandler

SEEN = datetime(2026, 5, 1, 12)


class Authenticator:
    def __init__(self) -> None:
        self.deleted: list[str] = []

    def delete_user(self, user: Any) -> None:
        self.deleted.append(user.name)


class Users:
    """The Hub's users in memory, with the same rows."""

    def __init__(self, db: Session) -> None:
        self.db, self.active = db, ["linus"]

    def find(self, name: str) -> Any:
        row = orm.User.find(self.db, name)
        return row and HubUser(row, name in self.active)

    def delete(self, user: Any) -> None:
        self.db.delete(user.orm_user)
        self.db.commit()


class HubUser:
    def __init__(self, row: orm.User, active: bool) -> None:
        self.orm_user, self.name, self.active = row, row.name, active

    @property
    def admin(self) -> bool:
        return bool(self.orm_user.admin)

    @admin.setter
    def admin(self, value: bool) -> None:
        self.orm_user.admin = value

    def all_spawners(self) -> list[Any]:
        return [SimpleNamespace(active=self.active)]

    async def delete_spawners(self) -> None:
        pass


class Site:
    def __init__(
        self, client: httpx.AsyncClient, db: Session, authenticator: Authenticator
    ) -> None:
        self.client, self.db, self.authenticator = client, db, authenticator

    async def ask(self, method: str, path: str, by: str = "grace", body: Any = None) -> Any:
        content = None if body is None else json.dumps(body)
        headers = {FOR_HEADER: by}
        return await self.client.request(method, path, content=content, headers=headers)

    async def names(self, query: str) -> list[str]:
        answer = (await self.ask("GET", f"users?{query}")).json()
        return [row["name"] for row in answer["users"]]


def database() -> Session:
    """grace is an admin, ada in a group with a role, linus has a session and is the newest."""
    db = orm.new_session_factory("sqlite://")()
    for role in roles.get_default_roles():
        roles.create_role(db, role)
    roles.create_role(db, {"name": "helper", "scopes": ["list:users"]})
    group = orm.Group(name="physics", roles=[orm.Role.find(db, "helper")])
    grace, ada = orm.User(name="grace", admin=True), orm.User(name="ada", last_activity=SEEN)
    linus, under = orm.User(name="linus", created=SEEN), orm.User(name="a_a")
    ada.groups.append(group)
    linus._orm_spawners.append(orm.Spawner(name="", server=orm.Server()))
    linus._orm_spawners.append(orm.Spawner(name="ended"))
    db.add_all([group, grace, ada, linus, under])
    db.commit()
    for user in (grace, ada, linus):
        roles.assign_default_roles(db, entity=user)
    db.commit()
    return db


@pytest.fixture
async def site(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    db, authenticator = database(), Authenticator()
    users = Users(db)

    async def prepare(handler: Any) -> None:
        """Leave out the login, which spawners/api/moves.py demands."""

    for kind in (UsersHandler, UserHandler):
        monkeypatch.setattr(kind, "prepare", prepare)
        monkeypatch.setattr(kind, "find_user", lambda _, name: users.find(name))
        monkeypatch.setattr(kind, "set_default_headers", lambda _: None)
    application = Application(
        [(r"/users", UsersHandler), (r"/users/([^/]+)", UserHandler)],
        db=db,
        users=users,
        authenticator=authenticator,
        log_function=lambda _: None,
    )
    socket, port = bind_unused_port()
    server = HTTPServer(application)
    server.add_socket(socket)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/", trust_env=False) as client:
        yield Site(client, db, authenticator)
    server.stop()
    db.close()


async def test_a_page_of_users(site: Site) -> None:
    answer = (await site.ask("GET", "users?limit=2&offset=1")).json()
    assert (answer["total"], answer["may"]) == (4, ["admin:users", "delete:users"])
    ada, grace = answer["users"]
    assert ada == {
        "name": "ada",
        "admin": False,
        "groups": ["physics"],
        "roles": ["helper", "user"],
        "created_at": ada["created_at"],
        "seen_at": 1777636800.0,
        "sessions": 0,
    }
    assert (grace["admin"], grace["seen_at"], grace["roles"]) == (True, None, ["admin", "user"])
    assert (await site.ask("GET", "users", by="ada")).json()["may"] == []


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("text=A", ["a_a", "ada", "grace"]),
        ("text=_", ["a_a"]),
        ("group=physics", ["ada"]),
        ("role=helper", ["ada"]),
        ("role=admin", ["grace"]),
        ("admin=1", ["grace"]),
        ("active=1", ["linus"]),
        ("sort=-name", ["linus", "grace", "ada", "a_a"]),
        ("sort=-last_activity", ["ada", "a_a", "grace", "linus"]),
        ("sort=password", ["a_a", "ada", "grace", "linus"]),
    ],
)
async def test_filters_and_order(site: Site, query: str, names: list[str]) -> None:
    assert await site.names(query) == names


async def test_sessions_are_the_servers_that_run(site: Site) -> None:
    answer = (await site.ask("GET", "users?text=linus")).json()
    assert [row["sessions"] for row in answer["users"]] == [1]


async def test_a_page_is_bounded(site: Site) -> None:
    site.db.add_all([orm.User(name=f"user{number:04}") for number in range(600)])
    site.db.commit()
    answer = (await site.ask("GET", "users?limit=100000")).json()
    assert (len(answer["users"]), answer["total"]) == (500, 604)


async def test_an_admin_is_made_and_removed(site: Site) -> None:
    for admin in (True, False):
        answer = await site.ask("PATCH", "users/ada", body={"admin": admin})
        assert answer.status_code == 200, answer.text
        ada = orm.User.find(site.db, "ada")
        assert ada.admin is admin
        assert ("admin" in {role.name for role in ada.roles}) is admin


@pytest.mark.parametrize("by", ["ada", "", "nobody", "linus"])
@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
async def test_nobody_but_an_admin_of_the_hub_changes_users(
    site: Site, by: str, method: str
) -> None:
    answer = await site.ask(method, "users/a_a", by, {"admin": True})
    assert answer.status_code == 403, answer.text
    assert orm.User.find(site.db, "a_a") is not None
    assert not orm.User.find(site.db, "a_a").admin
    assert site.authenticator.deleted == []


@pytest.mark.parametrize(
    ("method", "name", "body", "status"),
    [
        ("PATCH", "nobody", {"admin": True}, 404),
        ("PATCH", "grace", {"admin": False}, 409),
        ("PATCH", "ada", {"admin": "yes"}, 400),
        ("PATCH", "ada", [], 400),
        ("DELETE", "nobody", None, 404),
        ("DELETE", "grace", None, 409),
        ("DELETE", "linus", None, 409),
    ],
)
async def test_refused(site: Site, method: str, name: str, body: Any, status: int) -> None:
    answer = await site.ask(method, f"users/{name}", body=body)
    assert answer.status_code == status, answer.text
    assert answer.json()["message"]
    assert orm.User.find(site.db, "grace").admin


async def test_the_hub_forgets_a_user_without_sessions(site: Site) -> None:
    answer = await site.ask("DELETE", "users/ada")
    assert answer.status_code == 200, answer.text
    assert site.authenticator.deleted == ["ada"]
    assert await site.names("") == ["a_a", "grace", "linus"]
